"""Composes a training configuration from the files of this package, inside any program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from ada_lightning.config.generated import CONFIG_DIR


@contextmanager
def own_hydra() -> Iterator[None]:
    """Set the Hydra of a program aside that this is a part of."""
    before, GlobalHydra.instance().hydra = GlobalHydra.instance().hydra, None
    try:
        yield
    finally:
        GlobalHydra.instance().hydra = before


def composed(overrides: Sequence[str]) -> DictConfig:
    """Compose what ``train.py`` composes of these arguments.

    Raises:
        HydraException: it cannot.
    """
    with own_hydra(), initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        return compose("train", overrides=list(overrides))
