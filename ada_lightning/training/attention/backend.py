"""How packed documents attend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ada_lightning.training.batch import Microbatch


class AttentionBackend:
    """How packed tokens attend: to those before them in their response, and to its prompt."""

    implementation: str
    """Name of its function in transformers."""
    shares_prompts = True
    """Whether several responses may follow one prompt in a document."""
    can_slide = True
    """Whether a model's sliding windows are kept."""
    needs_gpu = False
    """Whether it trains on a GPU only."""

    def check(self) -> None:
        """Raise ValueError where something it needs is not installed."""

    def check_model(self, model: Any) -> None:
        """Refuse a transformers model whose layers would carry something from one packed document to the next.

        Raises:
            ValueError: it has recurrent or convolutional layers, attention in chunks of positions, dropout, or a
                sliding window that this backend does not keep.
        """
        config, name = model.config, type(model).__name__
        layer_types = set(getattr(config, "layer_types", None) or ())
        others = sorted(layer_types - {"full_attention", "sliding_attention"})
        if getattr(model, "_is_stateful", False) or others:
            what = f"layers of type {', '.join(others)}" if others else "layers with a state"
            raise ValueError(
                f"{name} has {what}, which would run on from one packed response into the next; use a model whose "
                "layers are all attention"
            )
        if getattr(config, "attention_dropout", 0.0):
            raise ValueError(
                f"{name} drops {config.attention_dropout:.0%} of its attention while training, so its "
                "log-probabilities are not those of the policy that sampled; set attention_dropout to 0 in its "
                "config.json"
            )
        slides = "sliding_attention" in layer_types or (not layer_types and getattr(config, "sliding_window", None))
        if slides and not self.can_slide:
            raise ValueError(
                f"{name} has a sliding window of {config.sliding_window} tokens, which attention=flex would ignore; "
                "use attention=sdpa or attention=flash"
            )

    def arguments(self, microbatch: Microbatch) -> Mapping[str, Any]:
        """Arguments for the model's forward pass over the microbatch, beside token and position ids."""
        raise NotImplementedError(f"{type(self).__name__} needs a method arguments(microbatch)")
