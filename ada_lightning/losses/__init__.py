"""The policy loss and the rules that reduce it to one number."""

from ada_lightning.losses.clipped import ClippedPolicyLoss
from ada_lightning.losses.flow import FlowRlLoss
from ada_lightning.losses.partition import PartitionHead
from ada_lightning.losses.reductions import (
    ConstantReduction,
    PromptMeanReduction,
    ResponseMeanReduction,
    TokenMeanReduction,
)
from ada_lightning.losses.terms import (
    ForesightedMask,
    HeadUpdate,
    LossReduction,
    PolicyLoss,
    TargetLoss,
    TokenMask,
    TokenTerms,
)
from ada_lightning.losses.trainable import TrainableLoss

__all__ = [
    "ClippedPolicyLoss",
    "ConstantReduction",
    "FlowRlLoss",
    "ForesightedMask",
    "HeadUpdate",
    "LossReduction",
    "PartitionHead",
    "PolicyLoss",
    "PromptMeanReduction",
    "ResponseMeanReduction",
    "TargetLoss",
    "TokenMask",
    "TokenMeanReduction",
    "TokenTerms",
    "TrainableLoss",
]
