"""Names of classes that moved: stored configurations of older runs go on leading to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, moved: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__`` that imports a class that moved when it is asked for.

    Args:
        package: ``__name__`` of the package that had the classes.
        moved: name of each class to the module that has it now.
    """

    def find(name: str) -> Any:
        if name not in moved:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(moved[name]), name)

    return find
