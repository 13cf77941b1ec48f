"""How the update corrects for the engine's probabilities, which differ slightly from the trainer's.

All compare the trainer's old log-probabilities with the engine's: weights of tokens are ``pi_old / pi_engine`` of the
token, those of sequences the product over all tokens of the response (masked ones too: they were sampled as well).
``loss.importance_cap`` is the bound of each; 0 leaves the correction out.

A rejection is no weight of 0 in the denominators: those count the response all the same, so that a step with many
rejected responses is a short one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ada_lightning.core.options import option
from ada_lightning.training.losses.functional import ratio, response_means, response_sums
from ada_lightning.training.losses.terms import TokenTerms


class ImportanceCorrection:
    """What a token's objective is multiplied with: a ratio, and what its bound does to it."""

    def __call__(self, terms: TokenTerms, num_responses: int, *, cap: float) -> Tensor:
        """Weight of each token that makes up for the engine's own probabilities. Shape ``(K,)``, no gradient.

        Args:
            terms: per token; the trainer's probabilities are the old ones.
            num_responses: B.
            cap: largest weight or ratio.
        """
        log_ratio_K = (terms.old_logprobs_K - terms.sampling_logprobs_K).detach()
        return self.bounded(self.ratios(log_ratio_K, terms.response_K, num_responses), cap)

    def ratios(self, log_ratio_K: Tensor, response_K: Tensor, num_responses: int) -> Tensor:
        """Ratio that each token is judged by; its own where nothing else is said. Shape ``(K,)``."""
        return ratio(log_ratio_K)

    def bounded(self, ratio_K: Tensor, cap: float) -> Tensor:
        """``min(ratio, cap)`` where nothing else is said. Shape ``(K,)``."""
        return ratio_K.clamp_max(cap)

    def caveat(self, cap: float) -> str:
        """Say in one line what it does to the update."""
        raise NotImplementedError

    def check(self, cap: float) -> list[str]:
        """Say what is wrong with the part and a cap, in one line each; none where they go together."""
        return []


@dataclass(kw_only=True, eq=False)
class Rejection(ImportanceCorrection):
    """A correction that leaves out what is not in ``[floor, cap]``.

    Args:
        floor: smallest ratio that trains.

    Raises:
        ValueError: ``floor`` is not in [0, 1].
    """

    floor: float

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1:
            raise ValueError(
                f"loss.importance.floor must be in [0, 1]: equal probabilities have to train; got {self.floor}"
            )

    def bounded(self, ratio_K: Tensor, cap: float) -> Tensor:
        """The ratio within the bounds, else 0. Shape ``(K,)``."""
        return torch.where((ratio_K >= self.floor) & (ratio_K <= cap), ratio_K, 0.0)

    def check(self, cap: float) -> list[str]:
        """Reject a cap that leaves nothing."""
        if cap >= 1:
            return []
        return [
            f"loss.importance_cap = {cap:g} rejects everything: equal probabilities have the ratio 1; use at least 1, "
            "or 0 for no correction"
        ]


@option("loss/importance", "token_truncation")
class TokenTruncation(ImportanceCorrection):
    """``min(ratio, cap)`` of each token (TIS). Low variance; of the sequence's weight it takes only single factors.

    Source:
        Yao et al., "Your efficient RL framework secretly brings you off-policy RL training" (2025), with a cap of 2.
    """

    def caveat(self, cap: float) -> str:
        """Tokens are weighed, up to the cap."""
        return (
            f"loss.importance_cap = {cap:g} corrects single tokens for the gap between engine and trainer; a bias of "
            "about that gap remains (sync/logprob_gap)"
        )


@option("loss/importance", "token_rejection")
@dataclass(kw_only=True, eq=False)
class TokenRejection(Rejection):
    """The ratio of each token where it is in ``[floor, cap]``, else 0 (IcePop).

    Source:
        Ling Team, "Small leak can sink a great ship: boost RL training on MoE with IcePop" (2025): [0.5, 5].
    """

    floor: float = 0.5

    def caveat(self, cap: float) -> str:
        """Tokens are left out."""
        return (
            f"loss.importance leaves out tokens whose probability is below {self.floor:g} or above {cap:g} times the "
            "engine's, and weighs the others by that ratio: rare tokens train less often than they are sampled"
        )


class _OfSequence(ImportanceCorrection):
    """Judges all tokens of a response by the ratio of the whole."""

    def ratios(self, log_ratio_K: Tensor, response_K: Tensor, num_responses: int) -> Tensor:
        """Product over the response's tokens. Shape ``(K,)``."""
        return ratio(response_sums(log_ratio_K, response_K, num_responses))[response_K]


@option("loss/importance", "sequence_truncation")
class SequenceTruncation(_OfSequence):
    """``min(ratio of the whole response, cap)`` on all of its tokens.

    The weight that importance sampling asks for, below its cap. Its logarithm is a sum over tokens: long responses
    reach the cap, or vanish.

    Source:
        verl's rollout correction ``rollout_is=sequence``; TRL's ``vllm_importance_sampling_mode=sequence_truncate``.
    """

    def caveat(self, cap: float) -> str:
        """Responses are weighed, up to the cap."""
        return (
            f"loss.importance_cap = {cap:g} corrects whole responses for the gap between engine and trainer, exactly "
            "where their ratio is below it"
        )


@option("loss/importance", "sequence_rejection")
@dataclass(kw_only=True, eq=False)
class SequenceRejection(_OfSequence, Rejection):
    """The ratio of the whole response where it is in ``[floor, cap]``, else 0, on all of its tokens.

    Source:
        TRL's default ``vllm_importance_sampling_mode=sequence_mask`` with a cap of 3; verl's masked importance
        sampling.
    """

    floor: float = 0.0

    def caveat(self, cap: float) -> str:
        """Responses are left out."""
        return (
            f"loss.importance leaves out responses whose probability is below {self.floor:g} or above {cap:g} times "
            "the engine's, and weighs the others by that ratio: long responses are left out more often"
        )


@option("loss/importance", "geometric_rejection")
@dataclass(kw_only=True, eq=False)
class GeometricRejection(Rejection):
    """1 where the geometric mean of a response's token ratios is in ``[floor, cap]``, else 0, on all of its tokens.

    Does not correct, only rejects what the engine and the trainer disagree about; choose a narrow cap with it, as
    ``loss/importance=geometric_rejection loss.importance_cap=1.01``. The mean does not grow with the
    length, so bounds are narrow and the same for long responses and short ones.

    Source:
        verl's ``geometric`` rejection sampling; SkyRL's geometric sequence mask with [0.99, 1.01].
    """

    floor: float = 0.99

    def ratios(self, log_ratio_K: Tensor, response_K: Tensor, num_responses: int) -> Tensor:
        """Geometric mean over the response's tokens. Shape ``(K,)``."""
        mean_B = response_means(log_ratio_K, torch.ones_like(log_ratio_K), response_K, num_responses)
        return ratio(mean_B)[response_K]

    def bounded(self, ratio_K: Tensor, cap: float) -> Tensor:
        """1 within the bounds, else 0. Shape ``(K,)``."""
        return (super().bounded(ratio_K, cap) > 0).to(ratio_K.dtype)

    def caveat(self, cap: float) -> str:
        """Responses are left out."""
        return (
            f"loss.importance leaves out responses whose tokens are on average below {self.floor:g} or above {cap:g} "
            "times as probable as for the engine, and corrects nothing else"
        )
