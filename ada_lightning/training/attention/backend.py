"""How packed documents attend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ada_lightning.training.attention.model_check import check_model
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
        """Refuse what crosses documents by another way than attention.

        Raises:
            ValueError: the architecture cannot be trained on packed documents with this backend.
        """
        check_model(model, can_slide=self.can_slide)

    def arguments(self, microbatch: Microbatch) -> Mapping[str, Any]:
        """Arguments for the model's forward pass over the microbatch, beside token and position ids."""
        raise NotImplementedError(f"{type(self).__name__} needs a method arguments(microbatch)")
