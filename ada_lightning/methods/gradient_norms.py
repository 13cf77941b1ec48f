"""Norms of the gradients of a prompt's right answers, by which GVM divides a step. Loads torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ada_lightning.core.options import option
from ada_lightning.core.protocols import GradientNorm, PolicyView
from ada_lightning.core.records import KeptResponse, Response, ResponseGroup, ResponsePool


@option("sampler/gradient_norm", "constant")
class ConstantNorm(GradientNorm):
    """No gradients: 1 for every prompt, so pass rates alone divide the step. Costs nothing (ours)."""

    def measure(self, pools: Sequence[ResponsePool]) -> list[float]:
        """Return 1 for each."""
        return [1.0] * len(pools)


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


@option("sampler/gradient_norm", "lm_head", max_tokens="${data.max_tokens_per_microbatch}")
class LmHeadNorm(PolicyGradientNorm):
    """Length of the gradient of the output layer, in closed form: a forward pass over the pilots' right answers (ours).

    It is ``|sum over tokens of (e_y - pi) h^T / temperature|``, with h the last hidden state before each token. Where
    input and output embeddings are one matrix (SmolLM2, small Qwen models), it is the part of its gradient that comes
    through the output.

    Args:
        max_tokens: tokens of a forward pass; a response that is longer by itself stands alone.
        chunk_size: logits of so many tokens of the vocabulary are held at once, for all tokens of the pass.

    Raises:
        ValueError: a size below 1; the base class says more.
    """

    def __init__(self, *, max_tokens: int = 1024, chunk_size: int = 8192) -> None:
        if chunk_size < 1:
            raise ValueError(f"gradient_norm.chunk_size must be at least 1; got {chunk_size}")
        self.chunk_size = chunk_size
        super().__init__(max_tokens=max_tokens)

    @torch.no_grad()
    def norms(self, policy: PolicyView, microbatch: Any) -> list[float]:
        """Return the length of each response's gradient."""
        hidden_TH = policy.hidden_states(policy.model, microbatch)
        return output_score_norms(
            hidden_TH[microbatch.predictor_K],
            microbatch.token_ids_K,
            [int(length) for length in microbatch.num_tokens_B],
            policy.model.get_output_embeddings(),
            temperature=policy.temperature,
            chunk_size=self.chunk_size,
        ).tolist()


@option("sampler/gradient_norm", "embed_tokens", max_tokens="${data.max_tokens_per_microbatch}")
class EmbedTokensNorm(PolicyGradientNorm):
    """Length of the gradient of the input embeddings, a backward pass per right answer of the pilots: the authors'.

    It is ``|d log pi(response) / d embed_tokens|``. About three times the forward pass of :class:`LmHeadNorm`, one
    response at a time whatever ``max_tokens`` is, and as much memory as the embedding. Where input and output
    embeddings are one matrix it is the gradient of that matrix, through both ends. Their code takes it in bfloat16,
    here it has the run's precision.

    Source:
        Authors' code ``RLHFlow/GVM``, ``em/run_em.sh`` and ``stage_2_calc_acceptRates_grads.py`` L153-195 at d640a75.
    """

    def norms(self, policy: PolicyView, microbatch: Any) -> list[float]:
        """Return the length of the one response's gradient."""
        with torch.enable_grad():
            logprobs_K, _ = policy.token_logprobs(policy.model, microbatch)
            (gradient_VH,) = torch.autograd.grad(logprobs_K.sum(), policy.model.get_input_embeddings().weight)
        return [float(gradient_VH.float().norm())]

    def _parts(self, pool: ResponsePool, responses: Sequence[Response]) -> Iterator[list[Response]]:
        """One response at a time: the gradient of a sum does not tell the lengths of its parts."""
        return ([response] for response in responses)


def output_score_norms(
    hidden_KH: Tensor,
    token_ids_K: Tensor,
    lengths_B: Sequence[int],
    lm_head: nn.Linear,
    *,
    temperature: float,
    chunk_size: int,
) -> Tensor:
    """Frobenius norm of the gradient of each response's log-probability with respect to the output weights.

    With z = (W h + b) / temperature the gradient is ``sum over tokens of (e_y - pi) h^T / temperature``, shape
    ``(V, H)``. Its rows are made a chunk of the vocabulary at a time and only their squares are kept, so memory is
    ``chunk_size * (K + H)``. About three times the work of the logits alone.

    Args:
        hidden_KH: last hidden state at the position before each token. Shape ``(K, H)``.
        token_ids_K: the tokens, response after response. Shape ``(K,)``, int64.
        lengths_B: tokens of each response.
        lm_head: hidden states to logits.
        temperature: divides the logits.
        chunk_size: tokens of the vocabulary at a time.

    Returns:
        Shape ``(B,)``, float32.

    Raises:
        ValueError: the lengths do not add up to K.

    Example:
        >>> head = torch.nn.Linear(1, 2, bias=False)
        >>> _ = torch.nn.init.zeros_(head.weight)
        >>> hidden, tokens = torch.tensor([[2.0], [2.0]]), torch.tensor([0, 0])
        >>> output_score_norms(hidden, tokens, [1, 1], head, temperature=1.0, chunk_size=1)  # |(1/2, -1/2)| times 2
        tensor([1.4142, 1.4142])
    """
    if sum(lengths_B) != len(token_ids_K) or len(token_ids_K) != len(hidden_KH):
        raise ValueError(
            f"lengths add up to {sum(lengths_B)} for {len(token_ids_K)} tokens and {len(hidden_KH)} hidden states"
        )
    with torch.no_grad(), torch.autocast(hidden_KH.device.type, enabled=False):
        hidden_KH = hidden_KH.float()
        log_norm_K = torch.full(token_ids_K.shape, -torch.inf, device=hidden_KH.device)
        for first in range(0, lm_head.weight.shape[0], chunk_size):
            log_norm_K = torch.logaddexp(log_norm_K, _logits(hidden_KH, lm_head, first, chunk_size, temperature)[1])
        squares_B = torch.zeros(len(lengths_B), device=hidden_KH.device)
        for first in range(0, lm_head.weight.shape[0], chunk_size):
            logits_Kv, _ = _logits(hidden_KH, lm_head, first, chunk_size, temperature)
            score_Kv = -(logits_Kv - log_norm_K[:, None]).exp()
            rows = torch.nonzero((token_ids_K >= first) & (token_ids_K < first + chunk_size)).squeeze(-1)
            score_Kv[rows, token_ids_K[rows] - first] += 1.0
            parts = zip(score_Kv.split(list(lengths_B)), hidden_KH.split(list(lengths_B)), strict=True)
            squares_B += torch.stack([(score.mT @ hidden).square().sum() for score, hidden in parts])
        return squares_B.sqrt() / temperature


def _logits(hidden_KH: Tensor, lm_head: nn.Linear, first: int, size: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Tempered logits of a chunk of the vocabulary and the logarithm of their summed exponentials."""
    bias = None if lm_head.bias is None else lm_head.bias[first : first + size].float()
    logits_Kv = nn.functional.linear(hidden_KH, lm_head.weight[first : first + size].float(), bias) / temperature
    return logits_Kv, logits_Kv.logsumexp(dim=-1)
