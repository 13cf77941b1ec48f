"""Which gradients may change the weights."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from typing import Any

from ada_lightning.core.checks import refuse
from ada_lightning.run.stopping import RunStoppedError

_MIN_NORMS = 8
"""Norms before a median of them says anything."""


class UpdateGuard:
    """Leaves out updates whose loss or gradient is not finite or explodes, and stops where that does not end.

    One such batch is an accident (an overflow, a broken response); the weights stay as they were and the run goes on.
    Several in a row mean that the weights, or the data, are at fault, and nothing trains any more.

    Args:
        max_skipped_in_a_row: updates left out one after another at which the run stops.
        max_norm_ratio: a gradient norm, before clipping, above this multiple of the median of the last ``window`` norms
            counts as exploding; it needs 8 of them. ``inf`` lets every finite gradient pass: it is clipped anyway.
        window: updates that the median is taken over.

    Raises:
        ValueError: a number is out of range; all in one message.
    """

    def __init__(self, *, max_skipped_in_a_row: int = 10, max_norm_ratio: float = math.inf, window: int = 64) -> None:
        refuse(
            max_skipped_in_a_row < 1 and f"max_skipped_in_a_row must be at least 1; got {max_skipped_in_a_row}",
            not max_norm_ratio > 1 and f"max_norm_ratio must be above 1 (.inf switches it off); got {max_norm_ratio}",
            window < _MIN_NORMS and f"window must be at least {_MIN_NORMS}; got {window}",
        )
        self.max_skipped_in_a_row = max_skipped_in_a_row
        self.max_norm_ratio = max_norm_ratio
        self.num_in_a_row = 0
        self._norms: deque[float] = deque(maxlen=window)

    def reason_to_skip(self, loss: float, grad_norm: float) -> str:
        """Say why an update must not be made; an empty text where it may. Counts what it is told.

        Loss and norm are those of the whole batch, before clipping.

        Raises:
            RunStoppedError: that was the last one that may be left out.
        """
        reason = self._reason(loss, grad_norm)
        if not reason:
            self.num_in_a_row = 0
            self._norms.append(grad_norm)
            return ""
        self.num_in_a_row += 1
        if self.num_in_a_row >= self.max_skipped_in_a_row:
            raise RunStoppedError(
                f"{self.num_in_a_row} updates in a row could not be made, the last because {reason}: the run does not "
                "train any more. Continue from an earlier checkpoint with a lower optimizer.lr or "
                "policy.max_grad_norm; look at train/grad_norm, sync/logprob_gap and the responses of the last steps. "
                f"The bound is policy.update_guard.max_skipped_in_a_row = {self.max_skipped_in_a_row}"
            )
        return reason

    def state_dict(self) -> dict[str, Any]:
        """What the next update is compared with."""
        return {"num_in_a_row": self.num_in_a_row, "norms": list(self._norms)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.num_in_a_row = int(state_dict["num_in_a_row"])
        self._norms = deque(state_dict["norms"], maxlen=self._norms.maxlen)

    def _reason(self, loss: float, grad_norm: float) -> str:
        if not math.isfinite(grad_norm):
            return f"its gradient norm is {grad_norm}"
        if not math.isfinite(loss):
            return f"its loss is {loss}"
        if len(self._norms) < _MIN_NORMS:
            return ""
        median = statistics.median(self._norms)
        if 0 < self.max_norm_ratio * median < grad_norm:  # a stretch without any gradient is no measure of the next
            return (
                f"its gradient norm {grad_norm:.4g} is {grad_norm / median:.1f} times the median {median:.4g} of the "
                f"last {len(self._norms)}"
            )
        return ""
