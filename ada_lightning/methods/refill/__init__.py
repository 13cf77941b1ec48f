"""Whether groups without a signal are replaced within their step."""

from ada_lightning.methods.refill.adaptive import AdaptiveDynamicSampling
from ada_lightning.methods.refill.dynamic import DynamicSampling
from ada_lightning.methods.refill.none import NoRefill

__all__ = ["AdaptiveDynamicSampling", "DynamicSampling", "NoRefill"]
