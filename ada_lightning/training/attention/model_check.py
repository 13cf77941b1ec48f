"""Which architectures keep packed documents apart."""

from __future__ import annotations

from typing import Any


def check_model(model: Any, *, can_slide: bool) -> None:
    """Refuse a model whose layers would carry something from one packed document to the next.

    Args:
        model: a transformers model.
        can_slide: whether the attention backend keeps sliding windows.

    Raises:
        ValueError: it has recurrent or convolutional layers, attention in chunks of positions, dropout, or a sliding
            window that the backend does not keep.
    """
    config, name = model.config, type(model).__name__
    layer_types = set(getattr(config, "layer_types", None) or ())
    others = sorted(layer_types - {"full_attention", "sliding_attention"})
    if getattr(model, "_is_stateful", False) or others:
        what = f"layers of type {', '.join(others)}" if others else "layers with a state"
        raise ValueError(
            f"{name} has {what}, which would run on from one packed response into the next; use a model whose layers "
            "are all attention"
        )
    if getattr(config, "attention_dropout", 0.0):
        raise ValueError(
            f"{name} drops {config.attention_dropout:.0%} of its attention while training, so its log-probabilities "
            "are not those of the policy that sampled; set attention_dropout to 0 in its config.json"
        )
    slides = "sliding_attention" in layer_types or (not layer_types and getattr(config, "sliding_window", None))
    if slides and not can_slide:
        raise ValueError(
            f"{name} has a sliding window of {config.sliding_window} tokens, which attention=flex would ignore; use "
            "attention=sdpa or attention=flash"
        )
