"""Which of a model's parameters train, all of them where nothing else is said, and layers that are compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ada_lightning.core.options import option
from ada_lightning.parallel.sharding import layers_of


class TrainedParameters:
    """Which parameters train, and how the weights that an engine or a file needs are made of them."""

    has_reference = False
    """Whether :meth:`as_reference` gives the initial model, so that no second one has to be loaded."""

    def check(self) -> None:
        """Raise ValueError for what can be found wrong before a model loads."""

    def weights_folder(self, initial: Path, checkpoint: Path | None) -> Path:
        """Return the folder whose weights :meth:`attach` starts from: of the initial model or in the checkpoint.

        The checkpoint is the folder to continue from; None for a fresh start.
        """
        return checkpoint / "policy" if checkpoint else initial

    def attach(self, model: nn.Module, checkpoint: Path | None) -> None:
        """Make a model with the weights of :meth:`weights_folder` ready to train, in place."""

    def hold_frozen(self, model: nn.Module, dtype: torch.dtype) -> None:
        """Hold frozen weights in the type that matrix products have under autocast, where that changes no number."""

    def trainable(self, model: nn.Module) -> list[nn.Parameter]:
        """Return what the optimiser changes."""
        return [parameter for parameter in model.parameters() if parameter.requires_grad]

    def named_weights(self, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
        """Yield the whole model's weights under the names of its Hugging Face checkpoint, tied ones once."""
        for name, parameter in model.named_parameters():
            yield name, parameter.detach()

    def named_adapters(self, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
        """Yield what is added to weights that are frozen, under peft's names and with its scale.

        Raises:
            TypeError: there is no such thing.
        """
        raise TypeError(f"{type(self).__name__} has no adapters")

    def write(self, model: Any, folder: Path) -> None:
        """Write the whole model as a Hugging Face checkpoint in float32."""
        model.save_pretrained(folder)

    def save(self, model: nn.Module, checkpoint: Path) -> None:
        """Write into a checkpoint's folder what :meth:`attach` needs in addition to ``policy/``."""

    def as_reference(self, model: nn.Module) -> AbstractContextManager[Any]:
        """Make the model compute as the initial one for a while, where ``has_reference``; else do nothing."""
        return nullcontext()


@option("parameters", "all")
class AllParameters(TrainedParameters):
    """Every weight trains."""


def compile_layers(model: Any) -> None:
    """Compile every transformer layer in place, for any number of tokens.

    All layers run one compiled code, so a model of 30 compiles as fast as one of 2, and modules and weights keep their
    names. Parts that cannot be compiled run as before between the compiled ones.

    Raises:
        ValueError: the architecture does not say which modules are its layers.
    """
    layers = layers_of(model)
    if not layers:
        raise ValueError(
            f"{type(model).__name__} does not name its layers, so policy.compile cannot compile them; "
            "use policy.compile=false"
        )
    for _, layer in layers:
        layer.compile(dynamic=True)
