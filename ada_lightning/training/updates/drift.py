"""How far the policy that trains has moved from the one that sampled its responses."""

from __future__ import annotations

import torch
from torch import Tensor

from ada_lightning.training.batch import Microbatch
from ada_lightning.training.losses.functional import kl_to_reference, response_sums

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
