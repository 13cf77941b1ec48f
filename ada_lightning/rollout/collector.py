"""Samples prompts with one engine, one grader and a sampler until every pool is complete, then selects.

What a sampler sees is always the complete prefix of a prompt's launch order, so the outcome has the distribution of the
round-based algorithm, whatever the order in which responses finish and whatever the schedule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from ada_lightning.core.protocols import RolloutEngine, Sampler, Selection
from ada_lightning.core.records import Belief, Prompt, ResponseGroup, ResponsePool, SamplingSettings
from ada_lightning.rollout.collection import Collection, CollectionSettings
from ada_lightning.rollout.engines.errors import EngineError, guarded
from ada_lightning.rollout.grader import Grader
from ada_lightning.rollout.phase_clock import PhaseClock
from ada_lightning.rollout.result import RolloutStats
from ada_lightning.rollout.schedule import Continuous, Schedule
from ada_lightning.rollout.top_up import TopUp

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["EngineError", "RolloutCollector", "load_weights"]


class RolloutCollector:
    """Drives one engine and one grader for training and evaluation alike.

    Args:
        decode: token ids to text.
        seed: of the run; every response's own seed derives from it.
        seed_requests: give each request its seed, so that results do not depend on scheduling
            (``python -m research.benchmarks.engine`` measures what that costs).
        positive_threshold: a reward above it is a positive (official code: 0.7).
        truncated: what a response cut by the length limit counts as. ``grade``: like any other. ``zero``: reward 0
            without asking the grader; it trains as a failure. ``exclude``: no evidence, neither in the pool nor trained
            on, drawn anew by sequential samplers; what is optimised is then the pass rate among finished responses.
            ``mask``: graded and counted, never trained on; the update then follows no pass rate exactly.
        grader_failure: what a response counts as that could not be graded through no doing of its own, as where a
            judge's server is down: ``exclude`` (no evidence either way) or ``as_zero``. A failure of its own making is
            a 0 in any case (:mod:`ada_lightning.rewards.failures` says which are).
        failure_alarm_ratio: warn when a larger share of a step's grades fails.
        schedule: when a prompt's next block may start. With a step budget nothing is drawn ahead: it has to know first.
        reproducible: let verdicts count at fixed engine steps, so that the engine's batches do not depend on the clock
            (:class:`~ada_lightning.rollout.stepwise.StepwiseGrader`).
        verdict_delay: then, engine steps between a response and its verdict.

    Raises:
        ValueError: an unknown choice a ratio outside [0, 1], or a negative delay.
    """

    def __init__(
        self,
        *,
        decode: Callable[[Sequence[int]], str],
        seed: int,
        seed_requests: bool = True,
        positive_threshold: float = 0.7,
        truncated: Literal["grade", "zero", "exclude", "mask"] = "grade",
        grader_failure: Literal["exclude", "as_zero"] = "exclude",
        failure_alarm_ratio: float = 0.05,
        schedule: Schedule = Continuous(),  # noqa: B008 - frozen
        reproducible: bool = False,
        verdict_delay: int = 4,
    ) -> None:
        if truncated not in ("grade", "zero", "exclude", "mask"):
            raise ValueError(f"rollout.truncated must be grade, zero, exclude or mask; got {truncated!r}")
        if grader_failure not in ("exclude", "as_zero"):
            raise ValueError(f"rollout.grader_failure must be exclude or as_zero; got {grader_failure!r}")
        if not 0 <= failure_alarm_ratio <= 1:
            raise ValueError(f"rollout.failure_alarm_ratio must be in [0, 1]; got {failure_alarm_ratio}")
        if verdict_delay < 0:
            raise ValueError(f"rollout.verdict_delay must not be negative; got {verdict_delay}")
        self._settings = CollectionSettings(
            decode=decode,
            seed=seed,
            seed_requests=seed_requests,
            positive_threshold=positive_threshold,
            truncated=truncated,
            grader_failure=grader_failure,
            failure_alarm_ratio=failure_alarm_ratio,
            schedule=schedule,
            is_stepwise=reproducible,
            verdict_delay=verdict_delay,
        )
        self._num_collections = 0

    def collect(
        self,
        prompts: Sequence[Prompt],
        *,
        engine: RolloutEngine,
        grader: Grader,
        sampler: Sampler,
        selection: Selection,
        settings: SamplingSettings,
        stage: str,
        step: int,
        policy_version: int,
        beliefs: Sequence[Belief] = (),
        clock: PhaseClock | None = None,
        interrupt_check: Callable[[], None] = lambda: None,
        top_up: TopUp | None = None,
        carried: Sequence[ResponsePool] = (),
    ) -> tuple[tuple[ResponseGroup, ...], RolloutStats]:
        """Sample every prompt until its sampler says stop, then select.

        Args:
            prompts: encoded prompts. One that leaves no room in the engine is skipped, counted and warned about.
            engine: with the weights of ``policy_version`` loaded and nothing in flight.
            grader: reward pool.
            sampler: who gets more.
            selection: what is kept.
            settings: how tokens are drawn.
            stage: ``train``, ``eval`` or ``preview``: part of every seed.
            step: rollout step, part of every seed.
            policy_version: stamped on every response.
            beliefs: about each prompt's pass rate, in the order of the prompts; none know nothing.
            clock: hears of (committed, launched so far) responses, and of the seconds spent waiting for graders.
            interrupt_check: called between engine steps; may raise to interrupt the collection.
            top_up: fills the step up with groups that have a signal; the others keep nothing, and the selection does
                not see them. None: all prompts count alike.
            carried: complete pools of an earlier step from which the selection chooses too.

        Returns:
            One group per prompt that was not skipped, in the order given, then one per carried pool, and the counts.

        Raises:
            ValueError: a step that is filled up, and a sampler with a budget for all of its prompts.
            EngineError: the engine failed; nothing of this collection is left in flight.
        """
        if top_up is not None and sampler.budget_per_step:
            raise ValueError(
                f"sampler.budget_per_step = {sampler.budget_per_step} divides a step among its prompts, and refill "
                "lets further ones join; use refill.max_ratio to limit a step, and sampler.budget_per_step=0"
            )
        self._num_collections += 1
        collection = Collection(
            self._settings,
            collection_id=self._num_collections,
            engine=engine,
            grader=grader,
            sampler=sampler,
            sampling=settings,
            stage=stage,
            step=step,
            policy_version=policy_version,
            clock=clock or PhaseClock(),
            interrupt_check=interrupt_check,
            top_up=top_up,
        )
        started = time.monotonic()
        pools = collection.run(prompts, beliefs or [Belief()] * len(prompts))
        division = None if top_up is None else top_up.divide(pools)
        trained = [*(division.trained if division else pools), *carried]
        kept = selection.select_all(trained)
        kept_of = {id(pool): chosen for pool, chosen in zip(trained, kept, strict=True)}
        surplus = {id(pool) for pool in division.surplus} if division else set()
        groups = tuple(
            ResponseGroup(pool, kept_of.get(id(pool), ()), is_surplus=id(pool) in surplus)
            for pool in (*pools, *carried)
        )
        num_skipped = collection.num_prompts - len(pools)
        return groups, collection.stats(num_skipped=num_skipped, seconds=time.monotonic() - started)


def load_weights(engine: RolloutEngine, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
    """Put the policy's weights into the engine, as :class:`EngineError` where that fails.

    Raises:
        EngineError: the engine failed.
    """
    guarded(engine.load_weights, named_tensors, policy_version)
