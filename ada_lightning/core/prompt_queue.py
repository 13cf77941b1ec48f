"""The order in which a run's prompts come, however many a step takes, and the prompts of a step that may grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from ada_lightning.core.prompt_columns import found_by_id
from ada_lightning.core.protocols import PassRateEstimator
from ada_lightning.core.records import Belief, Prompt

if TYPE_CHECKING:
    from torch import Tensor


_MOST_EMPTY_STRETCHES = 10_000
"""In a row, of a curriculum that filters. One that lets 1 prompt of 100 pass is that unlucky never."""


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Where a step begins: everything that follows is decided by it."""

    step: int
    next_stretch: int
    """Which part of the curriculum is asked for next. Where every step took its own, that is ``step``."""
    waiting: tuple[Prompt, ...] = ()
    """Prompts that come before it: left over from the last part, or put off."""

    @property
    def is_plain(self) -> bool:
        """Whether it follows from the step alone."""
        return self.next_stretch == self.step and not self.waiting

    def to_plain(self) -> dict[str, Any]:
        """Return it as primitives, prompts by their ids."""
        prompt_ids = [prompt.prompt_id for prompt in self.waiting]
        return {"step": self.step, "prompt_ids": prompt_ids, "next_stretch": self.next_stretch}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], *, prompts: Sequence[Prompt]) -> Self:
        """Restore :meth:`to_plain`, with all training prompts.

        Raises:
            ValueError: a prompt is not among them.
        """
        by_id = found_by_id(prompts, plain["prompt_ids"])
        if missing := [prompt_id for prompt_id in plain["prompt_ids"] if prompt_id not in by_id]:
            raise ValueError(
                f"step {plain['step']} of this run has {len(missing)} prompts that are not among the training prompts "
                f"({missing[0]}, for one); continue with the data of the run or start a new one"
            )
        return cls(plain["step"], plain["next_stretch"], tuple(by_id[prompt_id] for prompt_id in plain["prompt_ids"]))


@dataclass(slots=True)
class PromptQueue:
    """Hands out the parts of a curriculum, prompt by prompt and as many as a step wants.

    A step that takes its P prompts takes one part. One that takes more goes on with the next parts; what it
    leaves of the last one comes first in the next step, so no prompt is lost and an epoch stays an epoch. Beyond the
    first P no prompt comes twice in a step: one that would is put off to the next step.
    """

    stretch: Callable[[int], Sequence[Prompt]]
    """The curriculum's prompts by number of the part."""
    num_plain: int
    """P: so many prompts of a step are what the curriculum says, repeats included."""
    num_distinct: int
    """Different training prompts there are."""
    position: QueuePosition
    """Where the step begins."""
    num_used: int | None = None
    """Prompts that the step used; None until it is known, and then it is P."""
    _taken: list[Prompt] = field(default_factory=list)
    _waiting: deque[Prompt] = field(default_factory=deque)
    _next_stretch: int = 0
    _ids: set[str] = field(default_factory=set)
    _put_off: dict[str, Prompt] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Stand at the beginning of the step."""
        self._begin(self.position)

    def first(self, num_prompts: int) -> list[Prompt]:
        """Return the step's first prompts, fewer where there are no others. Asked again, it answers the same."""
        num_old = 0
        num_empty = 0
        # Two epochs hold every prompt, whatever their orders.
        most_old = 2 * self.num_distinct + 2 * self.num_plain
        while len(self._taken) < num_prompts and num_empty < _MOST_EMPTY_STRETCHES:
            if len(self._taken) >= self.num_plain and (len(self._ids) >= self.num_distinct or num_old > most_old):
                break
            if not self._waiting:
                self._waiting.extend(self.stretch(self._next_stretch))
                self._next_stretch += 1
                num_empty = 0 if self._waiting else num_empty + 1
                continue
            prompt = self._waiting.popleft()
            if len(self._taken) >= self.num_plain and prompt.prompt_id in self._ids:
                self._put_off.setdefault(prompt.prompt_id, prompt)
                num_old += 1
            else:
                self._taken.append(prompt)
                self._ids.add(prompt.prompt_id)
                num_old = 0
        return self._taken[:num_prompts]

    def go_to(self, step: int) -> None:
        """Begin a step: the next one where this one ended, any other where it would be had no step taken more."""
        if step == self.position.step:
            return
        self._begin(self.after() if step == self.position.step + 1 else QueuePosition(step, step))

    def now(self) -> QueuePosition:
        """Return this step's beginning, with the prompts that it was given already in place of a new choice."""
        waiting = (*self._taken, *self._put_off.values(), *self._waiting)
        return QueuePosition(self.position.step, self._next_stretch, waiting)

    def after(self) -> QueuePosition:
        """Return the next step's beginning."""
        num_used = self.num_plain if self.num_used is None else self.num_used
        self.first(num_used)  # a step whose prompts nobody asked for had them all the same
        waiting = (*self._taken[num_used:], *self._put_off.values(), *self._waiting)
        return QueuePosition(self.position.step + 1, self._next_stretch, waiting)

    def _begin(self, position: QueuePosition) -> None:
        self.position = position
        self.num_used = None
        self._taken = []
        self._waiting = deque(position.waiting)
        self._next_stretch = position.next_stretch
        self._ids = set()
        self._put_off = {}


class StepPrompts:
    """Draws a step's prompts in their order, each with the belief of before the step.

    An estimator learns from the prompts last predicted, so it is asked about the whole step whenever it grows; what
    the policy makes of a prompt is computed once.

    Args:
        first: the step's first so many prompts; fewer where there are no others.
        estimator: what pass rate to expect.
        represent: the policy's representation of prompts. Shape ``(P, H)``.
    """

    def __init__(
        self,
        first: Callable[[int], Sequence[Prompt]],
        estimator: PassRateEstimator,
        represent: Callable[[Sequence[Prompt]], Tensor],
    ) -> None:
        self._first = first
        self._estimator = estimator
        self._represent_anew = represent
        self._rows: dict[str, Tensor] = {}

    def draw(self, num_drawn: int, num_more: int) -> list[tuple[Prompt, Belief]]:
        """Return the prompts behind the first ``num_drawn``, at most ``num_more``; the same whenever asked."""
        prompts = list(self._first(num_drawn + num_more))
        if len(prompts) <= num_drawn:
            return []
        beliefs = self._estimator.predict(prompts, self._represent)
        return list(zip(prompts, beliefs, strict=True))[num_drawn:]

    def _represent(self, prompts: Sequence[Prompt]) -> Tensor:
        import torch

        new = list({prompt.prompt_id: prompt for prompt in prompts if prompt.prompt_id not in self._rows}.values())
        if new:
            self._rows |= zip([prompt.prompt_id for prompt in new], self._represent_anew(new), strict=True)
        return torch.stack([self._rows[prompt.prompt_id] for prompt in prompts])
