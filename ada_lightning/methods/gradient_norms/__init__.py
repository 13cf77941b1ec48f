"""How long the gradients of a prompt's right answers are: what GVM divides a step by."""

from ada_lightning.methods.gradient_norms.constant import ConstantNorm
from ada_lightning.methods.gradient_norms.embed_tokens import EmbedTokensNorm
from ada_lightning.methods.gradient_norms.lm_head import LmHeadNorm
from ada_lightning.methods.gradient_norms.of_policy import PolicyGradientNorm

__all__ = ["ConstantNorm", "EmbedTokensNorm", "LmHeadNorm", "PolicyGradientNorm"]
