"""How a run ends that must not go on."""

from __future__ import annotations


class RunStoppedError(RuntimeError):
    """A run was stopped on purpose. Its text is for people: what was wrong, the numbers, the way out."""


class SamplingStoppedError(RuntimeError):
    """A signal or a full disk ended a sampling job early. The text says how far it is and how it goes on."""
