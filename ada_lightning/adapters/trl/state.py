"""What the core remembers, in the trainer's own checkpoints; and when it learns."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from ada_lightning.adapters.core import Core


class AdaState(TrainerCallback, ExportableState):
    """Lets the core learn when an update is done, and keeps its state in ``trainer_state.json``.

    Args:
        core: what remembers.
        learn: called when an update is done.
        abandon: called before a checkpoint is written.
    """

    def __init__(self, core: Core, *, learn: Callable[[], object], abandon: Callable[[], object]) -> None:
        self._core, self._learn, self._abandon = core, learn, abandon

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Go on where the checkpoint was written.

        Raises:
            ValueError: a checkpoint of a run without this callback, or of another data set.
        """
        if state.global_step == 0:
            return
        saved = state.stateful_callbacks.get(type(self).__name__)
        if saved is None:
            raise ValueError("the checkpoint has nothing of ada.callback: was the run started without it?")
        self._core.load_state_dict(json.loads(saved["attributes"]["core"]))

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Learn from the step whose update has just been made."""
        self._learn()

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds; of a rollout that an interrupt cut off nothing: it is drawn again."""
        self._abandon()
        return {"args": {}, "attributes": {"core": json.dumps(self._core.state_dict())}}
