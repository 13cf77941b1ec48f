"""Ctrl-C before a run is set up, as one line: imported first, because the imports alone take seconds."""

from __future__ import annotations

import sys
from types import TracebackType

_show = sys.excepthook


def _show_interrupt(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("\ninterrupted; the same command starts again", file=sys.stderr, flush=True)
    else:
        _show(kind, error, trace)


sys.excepthook = _show_interrupt
