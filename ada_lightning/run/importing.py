"""Imports of packages that take seconds."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage inside of the block.

    Python looks for garbage again and again while a package makes its objects, and finds nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def importing() -> Iterator[None]:
    """Collect nothing inside of the block; what is there after the first one is never looked through again.

    For programs, before they make anything: a model that is there would be kept for good. With torch, Lightning and
    vLLM this saves a third of the seconds of a start and an end (``python -m research.benchmarks.startup --imports``).
    """
    with uncollected():
        yield
        _freeze()


@contextmanager
def imports_stay_frozen() -> Iterator[None]:
    """Let nobody inside of the block freeze or thaw objects.

    vLLM freezes what there is after the start of an engine, the engine included, and thaws everything at its end. Then
    each of the collections that free the engine's memory goes through all imports.
    """
    freeze, thaw = gc.freeze, gc.unfreeze
    gc.freeze = gc.unfreeze = _do_nothing
    try:
        yield
    finally:
        gc.freeze, gc.unfreeze = freeze, thaw


def _do_nothing() -> None:
    pass


@lru_cache(maxsize=1)
def _freeze() -> None:
    """Freeze now, and again at the end of the process, which frees all of its memory at once."""
    gc.freeze()
    atexit.register(gc.freeze)
