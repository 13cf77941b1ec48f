"""Compile a model layer by layer."""

from __future__ import annotations

from typing import Any

from ada_lightning.parallel.sharding import layers_of


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
