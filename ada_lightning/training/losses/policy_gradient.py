"""What all policy-gradient losses share: importance correction, token masks, KL, entropy, reduction; and REINFORCE."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import Tensor

from ada_lightning.core.checks import refuse
from ada_lightning.core.options import option
from ada_lightning.training.batch import BatchCounts, Microbatch
from ada_lightning.training.losses.functional import kl_to_reference
from ada_lightning.training.losses.importance import ImportanceCorrection, TokenTruncation
from ada_lightning.training.losses.terms import (
    LossReduction,
    PolicyLoss,
    TensorAndSums,
    TokenTerms,
    negative_errors,
)


@dataclass(kw_only=True, eq=False)
class PolicyGradientLoss(PolicyLoss):
    """Minus the reduced sum over tokens of ``weight * objective - kl_coef * KL + entropy_coef * entropy``.

    A subclass is a dataclass too: it adds its own settings, and gives the objective. KL and entropy are those of the
    pool, not of the kept responses: each response's part is weighted by
    :attr:`~ada_lightning.training.batch.Microbatch.pool_weight_B`, since a group that is half positives says little
    about what the policy usually does. Advantages bring their own weights.

    Token masks and importance weights multiply the objective only. What they leave out stays in the denominators.

    Args:
        reduction: how token terms are summed.
        importance: how the engine's mismatch is corrected, see :mod:`ada_lightning.training.losses.importance`.
        importance_cap: largest weight of the correction for the engine's own log-probabilities; 0 switches it off.
        kl_coef: of the KL to the frozen initial policy; above 0 loads a second model.
        entropy_coef: of the entropy bonus; 0: none.

    Raises:
        ValueError: what :meth:`errors` finds, all in one message.
    """

    is_scaled_by_reduction = True

    reduction: LossReduction
    importance: ImportanceCorrection = field(default_factory=TokenTruncation)
    importance_cap: float = 2.0
    kl_coef: float = 0.0
    entropy_coef: float = 0.0

    def __post_init__(self) -> None:
        refuse(*self.errors())
        self.needs_reference = self.kl_coef > 0
        self.needs_entropy_gradient = self.entropy_coef > 0
        self.needs_groups_without_signal = self.needs_reference or self.needs_entropy_gradient

    def errors(self) -> list[str]:
        """One line for each setting that is out of range."""
        return [
            *negative_errors(importance_cap=self.importance_cap, kl_coef=self.kl_coef, entropy_coef=self.entropy_coef),
            *(self.importance.check(self.importance_cap) if self.importance_cap > 0 else ()),
        ]

    def objective(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> TensorAndSums:
        """What a token adds to the objective, to be maximised. Shape ``(K,)``; and sums over tokens for logging."""
        raise NotImplementedError

    def anchored(self, terms: TokenTerms) -> TokenTerms:
        """Return the terms with the old log-probabilities that ratios are taken to: the trainer's own."""
        return terms

    def __call__(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch, counts: BatchCounts
    ) -> TensorAndSums:
        """Sum the terms of the class's formula. See :class:`PolicyLoss`."""
        # A times the ratio, in this loss's own way; on-policy its gradient is A grad log pi.
        anchored = self.anchored(terms)
        objective_K, sums = self.objective(anchored, advantages_B, microbatch)
        gap_K = (terms.old_logprobs_K - terms.sampling_logprobs_K).abs()
        sums |= {"logprob_gap": gap_K.sum(), "logprob_gap_max": gap_K.max()}
        # Tokens were drawn by the engine, not by the old policy: times pi_old / pi_engine, bounded.
        if self.importance_cap > 0:
            weight_K = self.importance(anchored, advantages_B.numel(), cap=self.importance_cap)
            sums["importance_weight"] = weight_K.sum()
            objective_K = objective_K * weight_K
        objective_K = objective_K * terms.mask_K
        # KL and entropy are means over what was drawn. Selection kept other shares; these weights undo that.
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
        # One weight a token, from counts of the whole batch: losses of microbatches add up. The sign turns last.
        token_weights_K = self.reduction.token_weights(microbatch, counts)[terms.response_K]
        loss = -(token_weights_K * objective_K).sum()
        return loss, {name: value.detach().float() for name, value in sums.items()}

    def caveats(self) -> list[str]:
        """Importance weights, what the method does by itself, KL and entropy."""
        return [
            self.engine_caveat(),
            *self.method_caveats(),
            *(
                f"loss.{name} = {value:g} adds a term that is not part of f"
                for name, value in (("kl_coef", self.kl_coef), ("entropy_coef", self.entropy_coef))
                if value > 0
            ),
        ]

    def engine_caveat(self) -> str:
        """What becomes of the gap between engine and trainer."""
        if self.importance_cap > 0:
            return self.importance.caveat(self.importance_cap)
        return (
            "loss.importance_cap = 0: the engine's probabilities differ a little from the trainer's "
            "(sync/logprob_gap), and nothing corrects for that"
        )

    def method_caveats(self) -> Iterable[str]:
        """What changes even the first update with a rollout; nothing by default."""
        return ()


@option("loss", "reinforce", choices={"reduction": "constant", "importance": "token_truncation"})
class ReinforceLoss(PolicyGradientLoss):
    """REINFORCE: ``A log pi`` per token, no ratio, no clip. For one update per rollout.

    The old log-probabilities are used for the engine's importance weight only, ``pi_old / pi_engine``; with
    ``importance_cap=0`` not at all.

    Claim: with one update per rollout nothing else is needed; RLOO, REINFORCE++ and GPG train like this. Assumes that
    responses come from the current policy. Degenerate case: several updates per rollout, whose later ones follow the
    gradient at a policy that did not sample them.

    Source:
        Williams 1992; Ahmadian et al., arXiv:2402.14740.
    """

    def objective(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> TensorAndSums:
        """``A log pi``. Shape ``(K,)``."""
        return advantages_B[terms.response_K] * terms.logprobs_K, {}

    def reuse_caveat(self) -> str:
        """How responses of an earlier policy are weighed."""
        return "the others take its responses as their own, without a ratio that corrects for it"
