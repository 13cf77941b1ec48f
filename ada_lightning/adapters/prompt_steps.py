"""Steps of one prompt each, any number at once: for trainers that choose prompts themselves.

What can be decided so is how often a prompt is drawn, by what came of it, which of its responses train, and what each
of them weighs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from ada_lightning.adapters.composed import ComposedMethod, compose_method
from ada_lightning.adapters.pools import Pools
from ada_lightning.adapters.reductions import RULES
from ada_lightning.config.problems import ConfigError
from ada_lightning.core.method import Method
from ada_lightning.core.protocols import Advantage, Sampler, Selection
from ada_lightning.core.records import Belief, Prompt
from ada_lightning.methods.advantages import HistoryBaselineAdvantage, RoundedHistoryAdvantage
from ada_lightning.methods.curriculum import UniformCurriculum
from ada_lightning.methods.published.shrinkage_baseline import ShrinkageBaselineAdvantage
from ada_lightning.methods.sampling.giving_up import NEVER
from ada_lightning.methods.sampling.sequential import SequentialSampler
from ada_lightning.methods.sampling.uniform import FirstVisitSampler
from ada_lightning.methods.selection import SeenSelection

_WITH_HISTORY = (HistoryBaselineAdvantage, RoundedHistoryAdvantage, ShrinkageBaselineAdvantage)
"""Advantages whose baseline comes from what earlier steps showed of a prompt."""


class PromptSteps:
    """Begins steps of one prompt each.

    Args:
        method: a name of ``conf/experiment``; one that remembers, or looks at a step as a whole, is refused.
        seed: of the method's own draws.
        **overrides: as of :class:`~ada_lightning.adapters.core.Core`.

    Raises:
        ConfigError: the method cannot work, or not on single prompts.
    """

    def __init__(self, method: str, *, seed: int = 0, **overrides: Any) -> None:
        self._method, self._seed, self._overrides = method, seed, overrides
        self._composed = cache(self._compose)
        composed = self._composed(0)
        if problems := list(_refusals(method, composed)):
            raise ConfigError(problems)

    def begin(self, prompt_id: str, *, step: int, most: int = 0) -> Pools:
        """Begin a step.

        Args:
            prompt_id: of the one prompt.
            step: of the run.
            most: responses that are drawn of it at most, for samplers that stop by themselves, and exactly for those
                that draw a group; 0: as the method says.

        Raises:
            ConfigError: the method cannot work with so many.
        """
        composed, prompt = self._composed(most), Prompt(prompt_id, ())
        under_way = composed.method.begin(
            [prompt],
            settings=composed.settings,
            beliefs=[Belief()],
            sampler=composed.method.sampler.frozen(),
            step=step,
            policy_version=step,
        )
        return Pools(under_way, [prompt], composed)

    def max_kept(self) -> int:
        """Most responses of one prompt that train."""
        return self._composed(0).max_kept

    def _compose(self, most: int) -> ComposedMethod:
        overrides: Mapping[str, Any] = self._overrides
        if most:
            sampler = self._composed(0).method.sampler
            overrides = {**overrides, "n_max" if hasattr(sampler, "n_max") else "group_size": most}
        return compose_method(self._method, overrides, seed=self._seed)


def _refusals(name: str, composed: ComposedMethod) -> Iterator[str]:
    method, way_out = composed.method, "this trainer shows prompts one at a time; use a stopping rule or a fixed group"
    sampler, selection, advantage = method.sampler, method.selection, composed.advantage
    if not isinstance(method.curriculum, UniformCurriculum | None):
        yield f"{name} chooses prompts ({type(method.curriculum).__name__}), but {way_out}"
    if not sampler.plans_nothing or sampler.budget_per_step or _learns(sampler):
        yield f"{name}: {type(sampler).__name__} divides a step among its prompts, or learns from them, but {way_out}"
    for part in (sampler, selection.within):
        if isinstance(part, FirstVisitSampler | SeenSelection):
            yield f"{name}: {type(part).__name__} needs to know whether a prompt came before, but {way_out}"
    if type(selection).select_all is not Selection.select_all or composed.needs_metrics:
        yield f"{name}: {type(selection).__name__} compares the prompts of a step, or learns from them, but {way_out}"
    if type(advantage).assign is not Advantage.assign or isinstance(advantage, _WITH_HISTORY):
        yield f"{name}: {type(advantage).__name__} looks at a whole step or at the history of a prompt, but {way_out}"
    yield from _adding(method, name, way_out)
    if composed.needs - {"logprobs"}:
        looks_at = " and ".join(sorted(composed.needs))
        yield f"{name} looks at {looks_at} of every response, which this trainer does not hand over"
    if composed.reduction is not RULES["constant"] and composed.reduction is not RULES["prompt_mean"]:
        yield f"{name} divides by what the whole step keeps; use **{{'loss/reduction': 'constant'}}"


def _adding(method: Method, name: str, way_out: str) -> Iterator[str]:
    if method.refill.is_on:
        yield f"{name}: {type(method.refill).__name__} adds prompts to a step, but {way_out}"
    if method.hints.is_on:
        yield f"{name}: {type(method.hints).__name__} adds groups to a step, but {way_out}"


def _learns(sampler: Sampler) -> bool:
    if isinstance(sampler, SequentialSampler):
        return type(sampler.give_up) is not type(NEVER)
    return type(sampler).learn is not Sampler.learn
