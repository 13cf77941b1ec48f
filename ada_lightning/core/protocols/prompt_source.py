"""Where prompts come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ada_lightning.core.records import Prompt


class PromptSource(Protocol):
    """Where prompts come from, with disjoint train and held-out lists fixed by a seed.

    A source may have more: ``check()`` raises ValueError for what can be found wrong without a model; ``reports`` and
    ``notes`` say what became of its rows (:mod:`ada_lightning.data.report`); ``epoch(prompts)`` repeats usable training
    prompts as often as an epoch is to show them.
    """

    def train_prompts(self) -> Sequence[Prompt]:
        """Prompts to learn from, in a stable order."""
        ...

    def heldout_prompts(self) -> Sequence[Prompt]:
        """Prompts to evaluate on; none of them is a training prompt."""
        ...
