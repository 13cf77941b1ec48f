"""Who may attend to whom in a packed microbatch, computed by one of the attention backends of transformers.

A backend gives :class:`~ada_lightning.training.policy.PolicyModule` the name of a transformers attention function and,
for each microbatch, the arguments that function needs (:class:`AttentionBackend`).
"""

from ada_lightning.training.attention.backend import AttentionBackend
from ada_lightning.training.attention.flash import FlashAttention
from ada_lightning.training.attention.flex import FlexAttention
from ada_lightning.training.attention.sdpa import SdpaAttention

__all__ = ["AttentionBackend", "FlashAttention", "FlexAttention", "SdpaAttention"]
