"""What the core remembers, in the trainer's own checkpoints; and when it learns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

if TYPE_CHECKING:
    from ada_lightning.adapters.trl.rollouts import AdaRollouts


class AdaState(TrainerCallback, ExportableState):
    """Lets the core learn when an update is done, and keeps its state in ``trainer_state.json``.

    Args:
        owner: whose core it is.
    """

    def __init__(self, owner: AdaRollouts) -> None:
        self._owner = owner

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
        self._owner.core.load_state_dict(json.loads(saved["attributes"]["core"]))

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Learn from the step whose update has just been made."""
        self._owner.learn()

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds; of a rollout that an interrupt cut off nothing: it is drawn again."""
        self._owner.abandon()
        return {"args": {}, "attributes": {"core": json.dumps(self._owner.core.state_dict())}}
