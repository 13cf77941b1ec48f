"""What the core remembers, in the trainer's own checkpoints; and when an update is done."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from ada_lightning.adapters.core import Core


class AdaState(TrainerCallback, ExportableState):
    """Says when an update is done, and keeps the core's state in ``trainer_state.json``.

    Args:
        core: what remembers.
        learn: called when an update is done.
        abandon: called before training begins, which may be after an interrupt in the middle of a rollout.
    """

    def __init__(self, core: Core, *, learn: Callable[[], object], abandon: Callable[[], object]) -> None:
        self._core, self._learn, self._abandon = core, learn, abandon

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Go on where the checkpoint was written.

        Raises:
            ValueError: a checkpoint of a run without this callback, or of another data set.
        """
        self._abandon()
        if state.global_step == 0:
            return
        saved = state.stateful_callbacks.get(type(self).__name__)
        if saved is None:
            raise ValueError("the checkpoint has nothing of ada.callback: was the run started without it?")
        self._core.load_state_dict(json.loads(saved["attributes"]["core"]))

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Say that an update has just been made."""
        self._learn()

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: nothing of a rollout whose last update is still to come; it is drawn anew."""
        return {"args": {}, "attributes": {"core": json.dumps(self._core.state_dict(between_steps=False))}}
