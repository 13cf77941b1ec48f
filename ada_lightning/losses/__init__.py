"""The policy loss and the rules that reduce it to one number."""

from ada_lightning.losses.clipped import ClippedPolicyLoss, TokenTerms
from ada_lightning.losses.reductions import (
    ConstantReduction,
    PromptMeanReduction,
    ResponseMeanReduction,
    TokenMeanReduction,
)

__all__ = [
    "ClippedPolicyLoss",
    "ConstantReduction",
    "PromptMeanReduction",
    "ResponseMeanReduction",
    "TokenMeanReduction",
    "TokenTerms",
]
