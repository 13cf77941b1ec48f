"""The policy losses and the rules that reduce them to one number.

=========================  =====================================================  ===================================
loss                       ratio to                                               what bounds the update
=========================  =====================================================  ===================================
``ClippedPolicyLoss``      the old policy, per token                              no gradient beyond the clip
``GspoLoss``               the old policy, geometric mean per response            no gradient of responses beyond it
``CispoLoss``              the old policy, per token                              the weight, not the gradient
``RaftLoss``               the old policy, per token                              as clipped; negatives do not train
``DivergencePolicyLoss``   the engine, per token                                  no gradient beyond a divergence
``ReinforceLoss``          none                                                   nothing
=========================  =====================================================  ===================================

The old policy is the trainer's before the first update with a rollout. With one update per rollout it is the current
one: every ratio to it is 1, nothing is clipped, and all these losses have the plain policy gradient.
"""

from ada_lightning.training.losses.divergence import (
    BinaryKl,
    BinaryTotalVariation,
    DivergencePolicyLoss,
    TokenDivergence,
)
from ada_lightning.training.losses.flow import FlowRlLoss, PartitionHead
from ada_lightning.training.losses.importance import (
    GeometricRejection,
    ImportanceCorrection,
    SequenceRejection,
    SequenceTruncation,
    TokenRejection,
    TokenTruncation,
)
from ada_lightning.training.losses.policy_gradient import PolicyGradientLoss, ReinforceLoss
from ada_lightning.training.losses.ratios import CispoLoss, ClippedPolicyLoss, GspoLoss, RaftLoss
from ada_lightning.training.losses.reductions import (
    ConstantReduction,
    PromptMeanReduction,
    ResponseMeanReduction,
    TokenMeanReduction,
)
from ada_lightning.training.losses.terms import LossReduction, PolicyLoss, TokenTerms

__all__ = [
    "BinaryKl",
    "BinaryTotalVariation",
    "CispoLoss",
    "ClippedPolicyLoss",
    "ConstantReduction",
    "DivergencePolicyLoss",
    "FlowRlLoss",
    "GeometricRejection",
    "GspoLoss",
    "ImportanceCorrection",
    "LossReduction",
    "PartitionHead",
    "PolicyGradientLoss",
    "PolicyLoss",
    "PromptMeanReduction",
    "RaftLoss",
    "ReinforceLoss",
    "ResponseMeanReduction",
    "SequenceRejection",
    "SequenceTruncation",
    "TokenDivergence",
    "TokenMeanReduction",
    "TokenRejection",
    "TokenTerms",
    "TokenTruncation",
]
