"""How a run ends that must not go on."""

from __future__ import annotations


class RunStoppedError(RuntimeError):
    """A run was stopped on purpose. Its text is for people: what was wrong, the numbers, the way out."""
