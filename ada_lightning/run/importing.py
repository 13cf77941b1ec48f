"""Imports of packages that take seconds."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache


@contextmanager
def importing() -> Iterator[None]:
    """Collect no garbage inside of the block, and afterwards never what it imported.

    Python looks for garbage again and again while a package makes its objects, and once more as the process ends. With
    torch, Lightning and vLLM that is a third of the seconds, and it finds nothing (``research.benchmarks.startup``).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        _freeze_at_the_end()
        if was_enabled:
            gc.enable()


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
def _freeze_at_the_end() -> None:
    """Nothing is looked for as the process ends, which frees all of its memory at once."""
    atexit.register(gc.freeze)
