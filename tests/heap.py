"""What programs import is left out of garbage collection, as vLLM leaves it out of its own serving.

vLLM collects again and again while an engine starts and ends, and in a process that has imported vLLM, Lightning and
MLflow each collection goes through all that these made: a large part of the time of a short run.
"""

from __future__ import annotations

import gc


def settle_imports():
    """Call it when everything is imported; the first call counts.

    vLLM freezes what there is at the start of each engine, with the cycles of the engine before, and thaws everything
    at its end: both do nothing from now on.
    """
    if gc.freeze is _leave_as_it_is:
        return
    gc.collect()
    gc.freeze()
    gc.freeze = gc.unfreeze = _leave_as_it_is


def _leave_as_it_is():
    pass
