"""Ctrl-C before a run is set up, as one line: imported first, because the imports alone take seconds."""

from __future__ import annotations

import sys
from types import TracebackType

_show = sys.excepthook


def _show_interrupt(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__  # a library that is cut off anywhere may raise something else
    if cause is not None:
        print("\ninterrupted; the same command starts again", file=sys.stderr, flush=True)
    else:
        _show(kind, error, trace)


sys.excepthook = _show_interrupt
