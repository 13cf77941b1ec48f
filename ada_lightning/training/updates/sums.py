"""What the parts of an update come to: sums for logging, gradients, and how far the policy has moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ada_lightning.core.records import ResponseGroup
from ada_lightning.training.batch import BatchCounts, ComputedPart, Microbatch
from ada_lightning.training.losses.functional import kl_to_reference, response_sums
from ada_lightning.training.losses.terms import POOL_WEIGHTED, LossReduction

_QUARTERS = 4


class Drift:
    """Gathers log-probability ratios over the microbatches of an update.

    With ``rho`` the ratio of a whole response, current policy over the one that sampled it, the effective sample size
    is ``(sum rho)^2 / (n sum rho^2)``, a share of the n trained responses: 1 where nothing has moved. It falls for long
    responses first, and for one class before the other; a collapse shows in it early (VCPO, arXiv:2602.17616).
    """

    def __init__(self) -> None:
        self._kl_sum = 0.0
        self._num_tokens = 0
        self._parts: list[tuple[Tensor, Tensor, Tensor]] = []
        """Log-ratio, class and length of the responses of each microbatch. Shapes ``(B,)``."""

    def add(self, logprobs_K: Tensor, microbatch: Microbatch) -> None:
        """Note the current log-probabilities of a microbatch's response tokens. Shape ``(K,)``, no gradient."""
        log_ratio_K = logprobs_K.double() - microbatch.sampling_logprobs_K.double()
        self._kl_sum += float(kl_to_reference(microbatch.sampling_logprobs_K, logprobs_K).sum())
        self._num_tokens += log_ratio_K.numel()
        log_ratio_B = response_sums(log_ratio_K, microbatch.response_K, microbatch.num_tokens_B.numel())
        row = log_ratio_B, microbatch.is_positive_B, microbatch.num_tokens_B
        self._parts.append(tuple(value.cpu() for value in row))  # type: ignore[arg-type]

    def figures(self) -> dict[str, float]:
        """Return ``staleness/<name>``; nothing where nothing was noted. Quarters of the responses go by length."""
        if not self._parts:
            return {}
        log_ratio_B, is_positive_B, length_B = map(torch.cat, zip(*self._parts, strict=True))
        figures = {
            "kl": self._kl_sum / max(self._num_tokens, 1),
            "sequence_log_ratio": float(log_ratio_B.mean()),
            "sequence_log_ratio_p99": float(log_ratio_B.quantile(0.99)),
            "ess": effective_sample_size(log_ratio_B),
        }
        by_length = log_ratio_B[length_B.argsort(stable=True)].tensor_split(_QUARTERS)
        groups = {"ess_positive": log_ratio_B[is_positive_B], "ess_negative": log_ratio_B[~is_positive_B]}
        groups |= {f"ess_length_q{number}": part for number, part in enumerate(by_length, start=1)}
        figures |= {name: effective_sample_size(part) for name, part in groups.items() if part.numel()}
        return {f"staleness/{name}": value for name, value in figures.items()}


def effective_sample_size(log_ratio_B: Tensor) -> float:
    """``(sum rho)^2 / (n sum rho^2)`` of ratios ``rho`` given by their logarithms, in (0, 1]. Shape ``(B,)``, B > 0.

    Example:
        >>> round(effective_sample_size(torch.tensor([1.0, 3.0]).log()), 3)
        0.8
    """
    ratio_B = (log_ratio_B - log_ratio_B.max()).exp()  # a common factor cancels
    return float(ratio_B.sum().square() / (ratio_B.numel() * ratio_B.square().sum()))


def add_sums(totals: dict[str, Tensor], sums: Mapping[str, Tensor]) -> None:
    """Add a microbatch's sums to those of the update so far; of a name that ends in ``_max`` the larger one stays."""
    for name, value in sums.items():
        if name not in totals:
            totals[name] = value
        else:
            totals[name] = torch.maximum(totals[name], value) if name.endswith("_max") else totals[name] + value


def update_figures(sums: Mapping[str, float]) -> dict[str, float]:
    """Return the figures of an update, means per trained token unless their name says otherwise.

    Args:
        sums: over all microbatches and ranks, as :class:`~ada_lightning.training.losses.PolicyLoss` names them, with
            ``tokens``, those that trained, and ``computed_tokens``, those of the forward passes; without ``tokens``
            where nothing trained.

    Returns:
        ``train/<name>``; the distance between trainer and engine as ``sync/<name>``.
    """
    sums = dict(sums)
    num_tokens, computed_tokens = sums.pop("tokens", 0.0), sums.pop("computed_tokens")
    pool_weight = sums.pop("pool_weight", 1.0)
    per_token = max(num_tokens, 1.0)
    figures = {"train/trained_tokens": num_tokens, "train/computed_tokens": computed_tokens}
    for name, value in sums.items():
        room = "sync" if name.startswith("logprob_gap") else "train"
        divisor = 1.0 if name.endswith("_max") else pool_weight if name in POOL_WEIGHTED else per_token
        figures[f"{room}/{name}"] = value / divisor
    return figures


@dataclass
class GradientSum:
    """Loss and figures of the microbatches whose gradients have been added up so far."""

    loss: Tensor = field(default_factory=lambda: torch.zeros(()))
    """Divided as the gradients are; on the device of the first microbatch once there was one."""
    totals: dict[str, Tensor] = field(default_factory=dict)
    """Sums over tokens for logging, as :class:`~ada_lightning.training.losses.terms.PolicyLoss` names them."""
    drift: Drift = field(default_factory=Drift)
    """How far the policy has moved from the one that sampled, where an older one samples."""


NOT_DIVIDED = BatchCounts(num_prompts=1.0, num_responses=1.0, num_response_tokens=1.0)
"""Denominators until those of the whole rollout are known."""


@dataclass
class StreamedPart(ComputedPart):
    """What was computed before its rollout had ended. The gradients stand in the parameters."""

    groups: list[ResponseGroup] = field(default_factory=list)
    """Groups that need not be computed again, those without a signal included."""
    sum: GradientSum = field(default_factory=GradientSum)
    """Of parts that are divided by :data:`NOT_DIVIDED`."""

    def factor(self, reduction: LossReduction, counts: BatchCounts) -> float:
        """Return what divides the sum by the denominators of the whole rollout.

        Raises:
            RuntimeError: the rule divides different responses by different functions of the denominators.
        """
        if not self.microbatches:
            return 1.0
        pairs = [
            (reduction.token_weights(part, counts).double(), reduction.token_weights(part, NOT_DIVIDED).double())
            for part in self.microbatches
        ]
        factors = torch.cat([wanted_B[had_B > 0] / had_B[had_B > 0] for wanted_B, had_B in pairs])
        if not factors.allclose(factors[:1], rtol=1e-5, atol=0.0):  # float32
            raise RuntimeError(
                f"rollout.stream_gradients: {type(reduction).__name__} does not divide all responses alike, so "
                "gradients cannot be scaled once its denominators are known; use rollout.stream_gradients=false"
            )
        return float(factors[0]) if len(factors) else 1.0
