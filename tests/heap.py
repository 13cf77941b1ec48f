"""What is imported is left out of garbage collection, as vLLM leaves it out of its own serving.

In a process that has imported vLLM, Lightning and MLflow each collection goes through all that these made: a quarter of
the time of most tests.
"""

from __future__ import annotations

import gc
import sys

_freeze = gc.freeze
_num_settled = 0


def settle_imports():
    """Call it when everything is imported, and again when more may be.

    vLLM freezes what there is at the start of each engine, with the cycles of the engine before, and thaws everything
    at its end: both do nothing from now on.
    """
    global _num_settled
    if len(sys.modules) > _num_settled + 200:
        gc.collect()
        _freeze()
        gc.enable()
        gc.freeze = gc.unfreeze = _leave_as_it_is
        _num_settled = len(sys.modules)


def _leave_as_it_is():
    pass
