"""Which gradients may change the weights, and what happens where there is no memory for them.

A microbatch is then cut in two, for the same gradient in less memory.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import compress
from typing import Any

import torch

from ada_lightning.core.checks import refuse
from ada_lightning.run.machine import is_out_of_memory as is_out_of_memory  # whoever updates asks here
from ada_lightning.run.stopping import RunStoppedError
from ada_lightning.training.batch import Microbatch, TrainingBatch

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
            not max_norm_ratio > 1 and f"max_norm_ratio must be above 1 (inf switches it off); got {max_norm_ratio}",
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
                "train any more. Continue from an earlier checkpoint, or start again, with a lower optimizer.lr or "
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
        if 0 < self.max_norm_ratio * median < grad_norm:  # a time without any gradient is no measure of the next
            return (
                f"its gradient norm {grad_norm:.4g} is {grad_norm / median:.1f} times the median {median:.4g} of the "
                f"last {len(self._norms)}"
            )
        return ""


class UpdateOutOfMemoryError(RunStoppedError):
    """An update does not fit into memory, nor does it in smaller parts."""

    def __init__(self, batch: TrainingBatch, error: BaseException) -> None:
        num_tokens = max((microbatch.num_computed_tokens for microbatch in batch), default=0)
        self.what = f"{type(error).__name__} with {num_tokens} tokens at once"
        super().__init__(
            f"an update ran out of memory with {num_tokens} tokens at once ({type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else 'no text'}). Lower data.max_tokens_per_microbatch to "
            f"{max(num_tokens // 2, 1)} or less, lower policy.logprob_chunk_size, switch on "
            "policy.gradient_checkpointing, or give the engine less: rollout.engine.kv_cache_gib"
        )


def halved(microbatch: Microbatch) -> tuple[Microbatch, ...]:
    """Split between responses where about half of the tokens stand on each side.

    A document that is cut has its prompt in both halves. Every response carries what its loss is made of, so the losses
    of the parts add up to that of the whole.

    Returns:
        Two microbatches; the same one alone where it holds a single response.
    """
    num_responses = len(microbatch.num_tokens_B)
    if num_responses < 2:
        return (microbatch,)
    sums = microbatch.num_tokens_B.long().cumsum(0).tolist()  # of floats there is no deterministic sum on a GPU
    cut = min(range(1, num_responses), key=lambda count: abs(sums[count - 1] - sums[-1] / 2))
    return _part(microbatch, slice(0, cut)), _part(microbatch, slice(cut, num_responses))


def _part(microbatch: Microbatch, chosen_B: slice) -> Microbatch:
    """Take consecutive responses, each behind its prompt."""
    is_taken: list[bool] = []
    document_lengths: list[tuple[int, ...]] = []
    first = 0
    for prompt_length, *lengths in microbatch.document_lengths:
        mine = [chosen_B.start <= response < chosen_B.stop for response in range(first, first + len(lengths))]
        first += len(lengths)
        is_taken += [any(mine)] * prompt_length
        for is_mine, length in zip(mine, lengths, strict=True):
            is_taken += [is_mine] * length
        if any(mine):
            document_lengths.append((prompt_length, *compress(lengths, mine)))
    taken_T = torch.tensor(is_taken, device=microbatch.input_ids_T.device)
    taken_K = (microbatch.response_K >= chosen_B.start) & (microbatch.response_K < chosen_B.stop)
    taken = {"T": taken_T, "K": taken_K, "B": chosen_B}
    values = {
        field.name: getattr(microbatch, field.name)[taken[field.name[-1]]]
        for field in fields(microbatch)
        if field.name[-2:] in ("_T", "_K", "_B")
    }
    values["predictor_K"] = (taken_T.cumsum(0) - 1)[values["predictor_K"]]  # where its token stands now
    values["response_K"] = values["response_K"] - chosen_B.start
    return replace(microbatch, document_lengths=tuple(document_lengths), **values)
