"""The callbacks by the one name that they have: at the top of a checkout, and inside of an installed package."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
from lightning.pytorch import Callback
from lightning.pytorch.loggers import Logger

import ada_lightning.callbacks as package

ROOT = Path(__file__).parents[3]


def test_the_package_is_the_folder_at_the_top():
    assert [Path(place) for place in package.__path__] == [ROOT / "callbacks"]


def test_a_second_copy_of_the_classes_cannot_be_imported():
    with pytest.raises(ImportError, match=r"the callbacks are ada_lightning\.callbacks, in a checkout too"):
        importlib.import_module("callbacks.budget")


def test_every_callback_and_logger_can_be_imported_from_the_package():
    found = {
        name
        for file in (ROOT / "callbacks").glob("[!_]*.py")
        for name, kind in vars(importlib.import_module(f"{package.__name__}.{file.stem}")).items()
        if inspect.isclass(kind) and issubclass(kind, Callback | Logger) and kind.__module__.endswith(f".{file.stem}")
        if kind.__module__.startswith(package.__name__)
    }
    assert found <= set(package.__all__)
    assert all(getattr(package, name).__name__ == name for name in package.__all__)
    with pytest.raises(AttributeError, match="no attribute Evalution"):
        package.Evalution  # noqa: B018
