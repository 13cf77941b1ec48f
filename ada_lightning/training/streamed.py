"""Gradients of prompts that are complete while others of their step are still sampled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import TypeVar

from ada_lightning.core.checks import refuse
from ada_lightning.core.method import Method
from ada_lightning.core.protocols import Sampler, Selection
from ada_lightning.core.records import ResponseGroup, ResponsePool
from ada_lightning.training.batch import TrainingBatch
from ada_lightning.training.policy import PolicyModule
from ada_lightning.training.updates import is_out_of_memory
from ada_lightning.training.updates.sums import NOT_DIVIDED, StreamedPart

T = TypeVar("T")
Pack = Callable[[Sequence[ResponseGroup]], TrainingBatch]
"""Packs groups as those of a step are."""


def check_streaming(method: Method, *, updates_per_rollout: int, num_processes: int) -> None:
    """Refuse what would train on wrong gradients. Of a configuration all is said, before a model loads.

    Raises:
        ValueError: gradients cannot be computed while the rollout of their step goes on.
    """
    sampler = type(method.sampler)
    refuse(
        updates_per_rollout > 1 and "rollout.stream_gradients needs one update per rollout",
        num_processes > 1 and "rollout.stream_gradients needs one training process",
        method.refill.is_on and "rollout.stream_gradients does not go with refill",
        method.hints.is_on and "rollout.stream_gradients does not go with hints",
        sampler.connect is not Sampler.connect
        and f"rollout.stream_gradients does not work with {sampler.__name__}, which reads the policy meanwhile",
    )


class StreamedGradients:
    """Adds up the gradients of a step's prompts in the order in which they become complete, while others are sampled.

    An update is the gradient of a sum over prompts, so it does not matter when a part of it is computed as long as the
    weights stay, and nothing changes them before the rollout has ended. What a part is divided by
    (:class:`~ada_lightning.training.losses.terms.LossReduction`) is a factor of the whole sum, and is made good when it
    is known. So the update is that of a rollout which was waited for, up to the order of its sums in floating point.

    Periodic Asynchrony (arXiv:2511.18871) accumulates gradients in this way.

    Args:
        policy: whose gradients these are.
        selection: what is kept of a pool, by what it holds alone.
        pack: as the step will be packed, in one batch.
        max_tokens: tokens that pass through the policy at once; prompts wait until they are so many.
    """

    def __init__(self, policy: PolicyModule, selection: Selection, pack: Pack, *, max_tokens: int) -> None:
        self._policy, self._selection, self._pack, self._max_tokens = policy, selection, pack, max_tokens
        self._step = 0
        self._lag: int | None = None
        self._told: SimpleQueue[ResponsePool | int] = SimpleQueue()
        """Complete pools, and numbers of steps whose sampling begins."""
        self._of_steps: dict[int, list[ResponsePool]] = {}
        """Complete pools by step; of later steps than the one that is trained on, too."""
        self._waiting: list[ResponseGroup] = []
        self._num_waiting = 0
        """Tokens of them."""
        self._part: StreamedPart | None = None
        self._warned: set[str] = set()

    def following(self, step: int, begin: Callable[..., T]) -> Callable[..., T]:
        """Return what begins the sampling of a step, once more too, and says so: pools of an attempt before are void.

        The engine may have broken in between. May be called from any thread.
        """

        def begun(*args: object, **options: object) -> T:
            self._told.put(step)
            return begin(*args, **options)

        return begun

    def note(self, pool: ResponsePool) -> None:
        """Take a complete pool. May be called from any thread."""
        self._told.put(pool)

    def begin(self, step: int, *, lag: int | None) -> None:
        """Start the sum of a step, sampled by weights that are ``lag`` updates old; None: by the policy as it is."""
        self._of_steps = {number: pools for number, pools in self._of_steps.items() if number >= step}
        self._step, self._lag = step, lag
        self._start_anew()

    def check_and_compute(self) -> None:
        """Compute what is complete, as soon as it fills a pass through the policy.

        Raises:
            BaseException: what the policy's ``interrupt_check`` raises; the weights are as they were.
        """
        self._policy.interrupt_check()
        while self._part is not None and (pool := self._next_pool()) is not None:
            (kept,) = self._selection.select_all([pool])  # before its step is complete
            group = ResponseGroup(pool, kept)
            (row,) = self._policy.advantages([group])
            self._waiting.append(group.with_advantages(row))
            self._num_waiting += sum(part.num_computed_tokens for part in self._pack(self._waiting[-1:]))
            if self._num_waiting >= self._max_tokens:
                self._add(self._part)

    def take(self, groups: Sequence[ResponseGroup]) -> StreamedPart:
        """End the step: return what was computed of its groups, which have their advantages.

        If any of it is not among them, all of it is forgotten. Whoever selects or weighs a pool by itself otherwise
        than with its step is warned of once: nothing is gained then.
        """
        self._read()
        part, self._part = self._part, None
        of_pool = {id(group.pool): group for group in groups}
        if part is not None and all(of_pool.get(id(group.pool)) == group for group in part.groups):
            return part
        if part is not None:
            self._warn("prompts are kept or weighed differently in their step than alone, so nothing is streamed")
            self._policy.zero_grad(set_to_none=True)
        return StreamedPart()

    def _start_anew(self) -> None:
        self._waiting, self._num_waiting, self._part = [], 0, StreamedPart()
        self._policy.zero_grad(set_to_none=True)  # what an interrupted step, or an attempt before, has left

    def _next_pool(self) -> ResponsePool | None:
        self._read()
        pools = self._of_steps.get(self._step)
        return pools.pop(0) if pools else None

    def _read(self) -> None:
        try:
            while True:
                told = self._told.get_nowait()
                if isinstance(told, ResponsePool):
                    self._of_steps.setdefault(told.step, []).append(told)
                    continue
                self._of_steps[told] = []
                if told == self._step and self._part is not None:
                    self._start_anew()
        except Empty:
            return

    def _warn(self, what: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(f"rollout.stream_gradients: {what}", RuntimeWarning, stacklevel=3)

    def _add(self, part: StreamedPart) -> None:
        groups, self._waiting, self._num_waiting = self._waiting, [], 0
        try:
            batch = replace(self._pack(groups), counts=NOT_DIVIDED, lag=self._lag).to(self._policy.device)
            with self._policy.clock.phase("update"), self._policy.forward_context():
                self._policy.add_gradients(batch, part.sum)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            self._part = None  # the update computes all of the step, in smaller parts where it has to
        else:
            part.groups += groups
            part.microbatches += batch.microbatches
            return
        self._policy.forget_update()
        self._policy.num_memory_retries += 1
        self._warn("there is not enough memory to train during a rollout; lower data.max_tokens_per_microbatch")
