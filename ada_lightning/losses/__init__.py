"""The policy loss and the rules that reduce it to one number."""

from ada_lightning.losses.clipped import ClippedPolicyLoss
from ada_lightning.losses.reductions import (
    ConstantReduction,
    PromptMeanReduction,
    ResponseMeanReduction,
    TokenMeanReduction,
)
from ada_lightning.losses.terms import LossReduction, PolicyLoss, TokenMask, TokenTerms

__all__ = [
    "ClippedPolicyLoss",
    "ConstantReduction",
    "LossReduction",
    "PolicyLoss",
    "PromptMeanReduction",
    "ResponseMeanReduction",
    "TokenMask",
    "TokenMeanReduction",
    "TokenTerms",
]
