"""A built method: the parts that decide who is sampled, how often, what trains, and what is learned of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ada_lightning.core.named_state import load_named_state, named_state
from ada_lightning.core.protocols import (
    Curriculum,
    FollowUp,
    Part,
    PassRateEstimator,
    Refill,
    Sampler,
    Selection,
    StepCosts,
)
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.core.top_up import Draw, TopUp


class Method:
    """Begins steps and learns from them, in a fixed order.

    Args:
        estimator: what pass rate to expect of each prompt.
        sampler: who gets more samples, who stops.
        selection: what is kept of a pool.
        refill: whether groups without a signal are replaced within their step.
        curriculum: which prompts a step is made of; None: whoever begins it says.
        hints: whether prompts that nobody solves are drawn again with a hint.
    """

    def __init__(
        self,
        *,
        estimator: PassRateEstimator,
        sampler: Sampler,
        selection: Selection,
        refill: Refill | None = None,
        curriculum: Curriculum | None = None,
        hints: FollowUp | None = None,
    ) -> None:
        self.estimator = estimator
        self.sampler = sampler
        self.selection = selection
        self.refill = refill or Refill()
        self.curriculum = curriculum
        self.hints = hints or FollowUp()

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Compare what is known beforehand, and what is needed, with the training prompts.

        Raises:
            ValueError: it is about other prompts, or they lack something.
        """
        self.estimator.check_prompts(prompts)
        self.sampler.check_prompts(prompts)
        self.hints.check_prompts(prompts)

    def begin(
        self,
        prompts: Sequence[Prompt],
        *,
        settings: StepSettings,
        beliefs: Sequence[Belief] = (),
        sampler: Sampler | None = None,
        hints: FollowUp | None = None,
        num_groups: int | None = None,
        draw: Draw | None = None,
        **options: Any,
    ) -> Step:
        """Begin a step; begun again with the same arguments it is the same.

        Args:
            prompts: encoded ones: of the first wave, where a step is filled up.
            settings: of the run.
            beliefs: about each prompt's pass rate, before the step.
            sampler: of a step that was prepared earlier, frozen then; the method's own unless given.
            hints: the same.
            num_groups: that the step is to have; the number of prompts unless given.
            draw: gives further prompts to fill it up with.
            options: further arguments of :class:`~ada_lightning.core.step.Step`.
        """
        top_up = None
        if self.refill.is_on and draw is not None:
            top_up = TopUp(self.refill, len(prompts) if num_groups is None else num_groups, draw, self.selection)
        hints = hints or self.hints
        return Step(
            prompts,
            sampler=sampler or self.sampler,
            selection=self.selection,
            settings=settings,
            beliefs=beliefs,
            top_up=top_up,
            follow_up=hints if hints.is_on else None,
            **options,
        )

    def learn(
        self,
        pools: Sequence[ResponsePool],
        metrics: Mapping[str, float],
        *,
        curriculum: Curriculum | None = None,
        costs: StepCosts | None = None,
        timed: Callable[[str], Any] = lambda phase: nullcontext(),
    ) -> None:
        """Let all that learns do so from a step, when its last update is done and not before.

        Responses under a hint say nothing of a prompt's pass rate: only the part that gives hints learns from them.

        Args:
            pools: of the step, with whatever became of them; the order of its prompts.
            metrics: figures of the step.
            curriculum: that chose the step's prompts; the method's own unless given.
            costs: of the step, for a curriculum that weighs them.
            timed: a context for what takes time, by its name.
        """
        every, pools = pools, [pool for pool in pools if pool.num_drawn and not pool.hint]
        with timed("estimate"):
            self.estimator.update(pools)
        self.sampler.learn(pools)
        if (chose := curriculum or self.curriculum) is not None:
            if costs is not None:
                chose.note_costs(costs)
            chose.observe(pools)
        self.selection.learn(metrics)
        self.hints.learn(every)

    def state_dict(self) -> dict[str, Any]:
        """What the parts remember of the steps that are done; the curriculum's is its owner's to keep."""
        return {name: named_state(part) for name, part in self._parts()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: a part of another class remembers something that its successor cannot read.
        """
        for name, part in self._parts():
            load_named_state(part, state.get(name, {}), setting=name)

    def _parts(self) -> Iterator[tuple[str, Part]]:
        yield from (("sampler", self.sampler), ("estimator", self.estimator), ("selection", self.selection))
        if self.hints.is_on:
            yield "hints", self.hints
