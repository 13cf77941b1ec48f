"""Codes with which ``train.py`` ends, for schedulers and scripts. 0: finished. 1: an error, or Ctrl-C."""

from __future__ import annotations

REQUEUE = 75
"""SIGTERM or SIGUSR1 stopped the run at a safe point and a checkpoint is there: the same command with ``ckpt=last``
continues. EX_TEMPFAIL of ``sysexits.h``."""
STALLED = 76
"""The engine hung, so the process ended itself; as after a kill, the last checkpoint is there."""
