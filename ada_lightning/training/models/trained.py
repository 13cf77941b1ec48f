"""Which of a model's parameters train: all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn


class TrainedParameters(Protocol):
    """Which parameters train, and how the weights that an engine or a file needs are made of them."""

    def check(self) -> None:
        """Raise ValueError for what can be found wrong before a model loads."""
        ...

    def weights_folder(self, initial: Path, checkpoint: Path | None) -> Path:
        """Return the folder whose weights :meth:`attach` starts from.

        Args:
            initial: of the run's initial model.
            checkpoint: folder of the checkpoint to continue from; None for a fresh start.
        """
        ...

    def attach(self, model: nn.Module, checkpoint: Path | None) -> None:
        """Make the model ready to train, in place.

        Args:
            model: with the weights of :meth:`weights_folder`.
            checkpoint: as there.
        """
        ...

    def trainable(self, model: nn.Module) -> list[nn.Parameter]:
        """Return what the optimiser changes."""
        ...

    def named_weights(self, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
        """Yield the whole model's weights under the names of its Hugging Face checkpoint, tied ones once."""
        ...

    def write(self, model: Any, folder: Path) -> None:
        """Write the whole model as a Hugging Face checkpoint in float32."""
        ...

    def save(self, model: nn.Module, checkpoint: Path) -> None:
        """Write into a checkpoint's folder what :meth:`attach` needs beside ``policy/``."""
        ...

    has_reference: bool
    """Whether :meth:`as_reference` gives the initial model, so that no second one has to be loaded."""

    def as_reference(self, model: nn.Module) -> AbstractContextManager[Any]:
        """Make the model compute as the initial one for a while; only where ``has_reference``."""
        ...


class AllParameters:
    """Every weight trains."""

    has_reference = False

    def check(self) -> None:
        """Nothing can be wrong."""

    def weights_folder(self, initial: Path, checkpoint: Path | None) -> Path:
        """The checkpoint's own weights, else the initial ones."""
        return checkpoint / "policy" if checkpoint else initial

    def attach(self, model: nn.Module, checkpoint: Path | None) -> None:
        """Nothing to add."""

    def trainable(self, model: nn.Module) -> list[nn.Parameter]:
        """All of them."""
        return list(model.parameters())

    def named_weights(self, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
        """The parameters themselves."""
        for name, parameter in model.named_parameters():
            yield name, parameter.detach()

    def write(self, model: Any, folder: Path) -> None:
        """As transformers does."""
        model.save_pretrained(folder)

    def save(self, model: nn.Module, checkpoint: Path) -> None:
        """``policy/`` holds everything."""

    def as_reference(self, model: nn.Module) -> AbstractContextManager[Any]:
        """Do nothing: the initial weights are gone."""
        return nullcontext()
