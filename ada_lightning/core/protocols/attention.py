"""How packed documents attend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:  # torch stays out of reward workers
    from ada_lightning.core.batch import Microbatch


@runtime_checkable
class AttentionBackend(Protocol):
    """How packed tokens attend: to those before them in their response, and to its prompt."""

    implementation: str
    """Name of its function in transformers."""
    shares_prompts: bool
    """Whether several responses may follow one prompt in a document."""
    needs_gpu: bool

    def check(self) -> None:
        """Raise ValueError where something it needs is not installed."""
        ...

    def check_model(self, model: Any) -> None:
        """Raise ValueError where this architecture cannot be trained with it."""
        ...

    def arguments(self, microbatch: Microbatch) -> Mapping[str, Any]:
        """Arguments for the model's forward pass over the microbatch, beside token and position ids."""
        ...
