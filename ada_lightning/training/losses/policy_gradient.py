"""What all policy-gradient losses share: importance correction, token masks, KL, entropy, reduction, logged sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from torch import Tensor

from ada_lightning.core.batch import BatchCounts, Microbatch
from ada_lightning.training.losses.functional.policy_gradient import kl_to_reference
from ada_lightning.training.losses.importance import TokenTruncation
from ada_lightning.training.losses.terms import ImportanceCorrection, LossReduction, TokenTerms

TOKEN_TRUNCATION = TokenTruncation()


class PolicyGradientLoss(ABC):
    """Minus the reduced sum over tokens of ``weight * objective - kl_coef * KL + entropy_coef * entropy``.

    A subclass gives the objective. KL and entropy are those of the pool, not of the kept responses: each response's
    part is weighted by :attr:`~ada_lightning.core.batch.Microbatch.pool_weight_B`, since a group that
    is half positives says little about what the policy usually does. Advantages bring their own weights.

    Token masks and importance weights multiply the objective only. What they leave out stays in the denominators.

    Args:
        reduction: how token terms are summed.
        importance: how the engine's mismatch is corrected, see :mod:`ada_lightning.training.losses.importance`.
        importance_cap: its bound; 0 switches it off.
        kl_coef: of the KL to the frozen initial policy; 0 loads no reference.
        entropy_coef: of the entropy bonus.
        problems: what the subclass found wrong with its own arguments.

    Raises:
        ValueError: a negative coefficient, or one of ``problems``; all in one message.
    """

    needs_hidden = False

    def __init__(
        self,
        *,
        reduction: LossReduction,
        importance: ImportanceCorrection,
        importance_cap: float,
        kl_coef: float,
        entropy_coef: float,
        problems: Iterable[str],
    ) -> None:
        errors = [
            *problems,
            *negative_errors(importance_cap=importance_cap, kl_coef=kl_coef, entropy_coef=entropy_coef),
            *(importance.check(importance_cap) if importance_cap > 0 else ()),
        ]
        if errors:
            raise ValueError("; ".join(errors))
        self.reduction = reduction
        self.importance = importance
        self.importance_cap = importance_cap
        self.kl_coef = kl_coef
        self.entropy_coef = entropy_coef

    @property
    def needs_reference(self) -> bool:
        """Whether a frozen reference must be loaded."""
        return self.kl_coef > 0

    @property
    def needs_groups_without_signal(self) -> bool:
        """Whether responses with zero advantage contribute, through KL or entropy."""
        return self.kl_coef > 0 or self.entropy_coef > 0

    @property
    def needs_entropy_gradient(self) -> bool:
        """Whether the entropy bonus is on."""
        return self.entropy_coef > 0

    def __call__(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch, counts: BatchCounts
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of one microbatch, already divided by the global counts: microbatch losses add up.

        Args:
            terms: per token.
            advantages_B: weight included. Shape ``(B,)``.
            microbatch: where the tokens come from.
            counts: global denominators.

        Returns:
            The scalar loss, and sums over tokens for logging (keys ending in ``_max`` are maxima; those named in
            ``POOL_WEIGHTED`` are to be divided by the sum ``pool_weight`` instead of by the number of tokens).
        """
        objective_K, sums = self.objective(terms, advantages_B, microbatch)
        gap_K = (terms.old_logprobs_K - terms.sampling_logprobs_K).abs()
        sums |= {"logprob_gap": gap_K.sum(), "logprob_gap_max": gap_K.max()}
        if self.importance_cap > 0:
            weight_K = self.importance(terms, advantages_B.numel(), cap=self.importance_cap)
            sums["importance_weight"] = weight_K.sum()
            objective_K = objective_K * weight_K
        objective_K = objective_K * terms.mask_K
        pool_weights_K = microbatch.pool_weight_B[terms.response_K]
        if self.kl_coef > 0:
            kl_K = pool_weights_K * kl_to_reference(terms.logprobs_K, terms.reference_logprobs_K)
            sums["kl"] = kl_K.sum()
            objective_K = objective_K - self.kl_coef * kl_K
        entropy_K = pool_weights_K * terms.entropy_K
        if self.entropy_coef > 0:
            objective_K = objective_K + self.entropy_coef * entropy_K
        sums["entropy"] = entropy_K.sum()
        sums["pool_weight"] = pool_weights_K.sum()
        token_weights_K = self.reduction.token_weights(microbatch, counts)[terms.response_K]
        loss = -(token_weights_K * objective_K).sum()
        return loss, {name: value.detach().float() for name, value in sums.items()}

    @abstractmethod
    def objective(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """What a token adds to the objective, to be maximised. Shape ``(K,)``; and sums over tokens for logging."""

    @abstractmethod
    def reuse_bend(self) -> str:
        """How responses of an earlier policy are weighed."""

    def bends(self) -> list[str]:
        """Importance weights, what the method does by itself, KL and entropy."""
        return [
            self.importance_bend(),
            *self.method_bends(),
            *(
                f"loss.{name} = {value:g} adds a term that is no part of f"
                for name, value in (("kl_coef", self.kl_coef), ("entropy_coef", self.entropy_coef))
                if value > 0
            ),
        ]

    def importance_bend(self) -> str:
        """What becomes of the engine's mismatch."""
        if self.importance_cap > 0:
            return self.importance.bend(self.importance_cap)
        return (
            "loss.importance_cap = 0: the engine's probabilities are not quite the trainer's (sync/logprob_gap), "
            "and nothing corrects for it"
        )

    def method_bends(self) -> Iterable[str]:
        """What turns even the first update with a rollout; nothing by default."""
        return ()


def negative_errors(**values: float) -> list[str]:
    """One line for each argument of a loss that must not be negative and is."""
    return [f"loss.{name} must not be negative; got {value}" for name, value in values.items() if value < 0]


def clip_errors(*, clip_low: float, clip_high: float) -> list[str]:
    """One line for each clip that is out of range."""
    errors = negative_errors(clip_high=clip_high)
    if not 0 <= clip_low <= 1:
        errors.append(f"loss.clip_low must be in [0, 1]; got {clip_low}")
    return errors
