"""What estimators share that keep counts by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ada_lightning.core.protocols import PassRateEstimator
from ada_lightning.core.records import Prompt
from ada_lightning.methods.estimators.history_file import HistoryCounts, HistoryFile


class CountingEstimator(PassRateEstimator):
    """Keeps numbers by prompt id, and may start from those of a history file.

    Args:
        history_file: known counts to start from (:mod:`ada_lightning.methods.estimators.history_file`); None starts
            without.
        errors: what is wrong with other arguments.

    Raises:
        ValueError: there are errors, or the history file cannot be used; all in one message.
    """

    _state_key: ClassVar[str] = "counts"

    def __init__(self, history_file: str | None, errors: Sequence[str]) -> None:
        self._history = HistoryFile(history_file, errors)
        self._known: dict[str, Sequence[float]] = {
            prompt_id: (right, responses - right) for prompt_id, (right, responses) in self._history.counts.items()
        }
        """(positives, negatives), unless a subclass keeps other numbers."""

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Compare the history file, if there is one, with the training prompts.

        Raises:
            ValueError: it knows none of them.
        """
        self._history.check_prompts(prompts)

    def history_counts(self) -> HistoryCounts:
        """What a later run can start from."""
        return {prompt_id: (right, right + wrong) for prompt_id, (right, wrong) in self._known.items()}

    def state_dict(self) -> dict[str, Any]:
        """What is kept of each prompt."""
        return {self._state_key: {prompt_id: list(numbers) for prompt_id, numbers in self._known.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`; it replaces what came from a history file."""
        self._known = {prompt_id: list(numbers) for prompt_id, numbers in state[self._state_key].items()}
