"""SkyRL's data set, whose next row is the one that the memory wants."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from ada_lightning.adapters.brain import Brain
from ada_lightning.adapters.brain_records import Handout


class AdaPrompts:
    """Gives the rows of SkyRL's own data set in the order in which a method chooses them.

    SkyRL's loader shuffles places, so the place that it asks for means nothing here. A row's uid is that of a visit:
    ``step.slot``. Its loader has to run in the trainer's process.

    Args:
        rows: SkyRL's ``PromptDataset``: messages, class of environment, further columns and uid by place.
        brain: the memory.
        keeps_state: whether the loader's state holds the memory's. Not in the asynchronous trainer, which winds its
            loader back after each epoch.
    """

    def __init__(self, rows: Any, brain: Brain, *, keeps_state: bool) -> None:
        self._rows, self.brain = rows, brain
        self.collate_fn: Callable[[Any], Any] = rows.collate_fn
        self._waiting: deque[Handout] = deque()
        self.handed: dict[str, Handout] = {}
        """What was chosen and is not drawn yet, by uid."""
        self._again: deque[str] = deque()
        if keeps_state:
            self.state_dict = brain.state_dict
            self.load_state_dict = self._load

    def __len__(self) -> int:
        return len(self._rows) // self.brain.num_prompts * self.brain.num_prompts  # an epoch has whole steps

    def __getitem__(self, place: int) -> Any:
        """Return the row of the next prompt of the step under way, or of the next step."""
        if self._again:
            messages, env_class, others, _ = self._rows[0]
            return messages, env_class, others, self._again.popleft()
        if not self._waiting:
            self._waiting.extend(self.brain.choose())
        handout = self._waiting.popleft()
        messages, env_class, others, _ = self._rows[int(handout.prompt_id)]
        uid = f"{handout.step}.{handout.slot}"
        self.handed[uid] = handout
        return messages, env_class, others, uid

    def skip(self, uids: Collection[str]) -> None:
        """Give rows with these uids first: those of an epoch that a resumed trainer passes over."""
        self._again = deque(uids)

    def forget(self) -> None:
        """Forget what is under way, as after a resume."""
        self._waiting.clear()
        self.handed.clear()

    def _load(self, state: dict[str, Any]) -> None:
        self.brain.load_state_dict(state)
        self.forget()


def texts_of(rows: Any) -> dict[str, str]:
    """Return what SkyRL's prompts say, by their place in the data set.

    Args:
        rows: SkyRL's ``PromptDataset``.
    """
    found = {}
    for place in range(len(rows)):
        messages = rows[place][0]
        said = messages if isinstance(messages, str) else "\n".join(str(turn.get("content")) for turn in messages)
        found[str(place)] = said
    return found
