"""What gradient norms share that read the policy: which responses count, and how they are cut into forward passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from ada_lightning.core.protocols import GradientNorm, PolicyView
from ada_lightning.core.records import KeptResponse, Response, ResponseGroup, ResponsePool


class PolicyGradientNorm(GradientNorm, ABC):
    """Mean over a pool's positives of the length of ``grad log pi(response)``: of norms, not of their squares.

    The log-probability is the sum over tokens, as in the paper (appendix B: a mean would take from long answers).
    Seconds are counted as ``time/gradient_norm_s``.

    Args:
        max_tokens: tokens of a forward pass; a response that is longer by itself stands alone.

    Raises:
        ValueError: ``max_tokens`` below 1.

    Source:
        GVM, arXiv:2505.02391, Algorithm 2; RLHFlow/GVM at d640a75,
        ``em/stage_2_calc_acceptRates_grads.py``.
    """

    def __init__(self, *, max_tokens: int = 1024) -> None:
        if max_tokens < 1:
            raise ValueError(f"gradient_norm.max_tokens must be at least 1; got {max_tokens}")
        self.max_tokens = max_tokens
        self._policy: PolicyView | None = None

    @abstractmethod
    def norms(self, policy: PolicyView, microbatch: Any) -> list[float]:
        """Return the length of each response's gradient. Called where the run's precision is in force."""

    def connect(self, policy: PolicyView) -> None:
        """Remember whose gradients to take."""
        self._policy = policy

    def measure(self, pools: Sequence[ResponsePool]) -> list[float]:
        """Return the mean over each pool's positives; 0 for a pool without any.

        Raises:
            RuntimeError: no policy is connected, and there is a positive.
        """
        return [self._mean(pool, [r for r in pool.responses if r.is_positive and r.num_tokens]) for pool in pools]

    def _mean(self, pool: ResponsePool, positives: Sequence[Response]) -> float:
        if not positives:
            return 0.0
        if self._policy is None:
            raise RuntimeError(
                f"{type(self).__name__} needs the policy and none is connected: callbacks.adaptive_sampling does that; "
                "without it use gradient_norm=constant"
            )
        total = 0.0
        with self._policy.clock.phase("gradient_norm"), self._policy.forward_context():
            for part in self._parts(pool, positives):
                kept = tuple(KeptResponse(response, 1.0) for response in part)
                total += sum(self.norms(self._policy, self._policy.packed(ResponseGroup(pool, kept))))
                self._policy.interrupt_check()
        return total / len(positives)

    def _parts(self, pool: ResponsePool, responses: Sequence[Response]) -> Iterator[list[Response]]:
        """Cut into forward passes, one prompt with as many of its responses as fit."""
        part: list[Response] = []
        num_tokens = len(pool.prompt.prompt_ids)
        for response in responses:
            fits = num_tokens + len(response.response_ids) <= self.max_tokens
            if part and not fits:
                yield part
                part, num_tokens = [], len(pool.prompt.prompt_ids)
            part.append(response)
            num_tokens += len(response.response_ids)
        yield part
