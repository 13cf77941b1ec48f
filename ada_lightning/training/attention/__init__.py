"""Who may attend to whom in a packed microbatch, and the quickest kernel that each device has for it."""

from ada_lightning.training.attention.packed import PackedAttention

__all__ = ["PackedAttention"]
