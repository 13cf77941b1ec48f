"""The loop of a run: one step after another, from the choice of its prompts to what is learned of it.

Choose prompts -> beliefs -> begin the step -> sync weights -> drive engine and graders -> select -> weigh -> pack ->
hand to the update -> learn. The file has them in this order.

``programs/training_run.py`` makes the parts. ``callbacks/adaptive_sampling.py`` makes a :class:`Loop` of them, and
``data/datamodule.py`` lets Lightning iterate over :meth:`Loop.updates`. Read next: ``core/step.py`` (which response is
asked for, and when), ``rollout/driver.py`` (engine and graders), ``training/policy.py`` (the update and its loss).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ada_lightning.core.following import not_refused
from ada_lightning.core.method import Method
from ada_lightning.core.prompt_queue import StepPrompts
from ada_lightning.core.protocols import StepCosts
from ada_lightning.core.records import Belief, Prompt, ResponseGroup
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import RolloutResult
from ada_lightning.core.top_up import refill_figures
from ada_lightning.rollout.async_rollouts import AsyncRollouts
from ada_lightning.rollout.service import RolloutService
from ada_lightning.run.determinism import seed_generators

if TYPE_CHECKING:
    from ada_lightning.data.datamodule import RolloutDataModule
    from ada_lightning.training.batch import TrainingBatch
    from ada_lightning.training.policy import PolicyModule
    from ada_lightning.training.streamed import StreamedGradients

Report = Callable[[RolloutResult, Sequence[ResponseGroup], dict[str, float]], object]
"""``(rollout, groups that train, figures)``: hears of every rollout before the first update with it."""


class Loop:
    """Makes the batches of a run, one for each optimiser step. Whoever iterates over them updates the policy.

    Args:
        method: who gets more samples, who stops, what is kept, what is learned.
        policy: samples, weighs responses, and is updated with the batches.
        data: chooses prompts and packs groups.
        service: the engine with its graders.
        streamed: computes gradients of prompts that are complete while others are sampled, if anything does.
        share_spent: how much is spent of a budget that may end the run before its last step, in [0, 1].
        report: logs.

    Without Lightning, ``for batch in loop.updates(): update(batch)`` is a run; :meth:`learn` follows a step's last one.
    """

    def __init__(
        self,
        method: Method,
        *,
        policy: PolicyModule,
        data: RolloutDataModule,
        service: RolloutService,
        streamed: StreamedGradients | None = None,
        share_spent: Callable[[], float] = lambda: 0.0,
        report: Report = lambda result, groups, figures: None,
    ) -> None:
        self.method, self.policy, self.data, self.service = method, policy, data, service
        options: dict[str, Any] = {"policy": policy, "data": data, "service": service, "streamed": streamed}
        self.ahead = AsyncRollouts(method, **options) if service.max_staleness else None
        """Where the policy that samples lags behind: what prepares steps and samples them before their turn."""
        self._streamed, self._share_spent, self._report = streamed, share_spent, report
        self._groups: tuple[ResponseGroup, ...] = ()
        """Of the step that is trained on: nothing has been learned of them yet."""

    def updates(self, num_done: int = 0) -> Iterator[TrainingBatch]:
        """Yield the batches of the run, behind the first ``num_done`` updates.

        A run that was stopped between two updates with a rollout draws the rest of that rollout anew, from the policy
        it has then. Where an older policy samples, it is the same rollout again, and goes on where it was.
        """
        first_step, first_update = divmod(num_done, self.data.updates_per_rollout)
        for number in range(first_step, self.data.num_steps):
            if not (batches := self.rollout(number)):
                return  # a stream of prompts has ended
            since = first_update if self.ahead else 0
            for index, batch in enumerate(batches[first_update:], start=since):
                # Whoever asked updates the policy now: PolicyModule.training_step. Behind the last one it calls learn.
                yield replace(batch, updates_since_rollout=index)
            first_update = 0

    def rollout(self, number: int) -> list[TrainingBatch]:
        """Return the batches of a step, one for each of its updates: those of this process's replica.

        Empty where the prompts come from a stream, and it has too few for the step.
        """
        ranks = self.policy.ranks

        def lead() -> list[list[TrainingBatch]]:
            if (self.ahead or self.data).is_over(number):
                print(self.data.said_of_end(), flush=True)
                return [[] for _ in range(ranks.num_replicas)]
            share_done = max(number / self.data.num_steps, self._share_spent())  # for the learning rate
            groups, policy_version = self.collect(number)
            return self._pack(number, groups, policy_version, share_done=share_done)

        # The leading process alone samples and packs. The others do their part of its commands, and get their batches.
        return self._score_old(number, ranks.scatter(ranks.lead(lead)))

    def collect(self, number: int) -> tuple[Sequence[ResponseGroup], int]:
        """Return the groups of a step that train, with their advantages, and the policy version that sampled them."""
        if self._streamed:  # its gradients are added up from here on
            self._streamed.begin(number, lag=self._lag(number))
        # A policy that lags behind has steps prepared, and sampled before their turn.
        step, figures = self.ahead.sample(number) if self.ahead else self._sample(number)
        return self._select_and_weigh(step, figures)

    def _sample(self, number: int) -> tuple[Step, dict[str, float]]:
        """Return the complete step, sampled by the policy of now, and figures of what was believed of its prompts."""
        method, policy, data, service = self.method, self.policy, self.data, self.service
        # Choose: the curriculum says which prompts come. A step that is filled up may go on with those behind them.
        prompts = data.first_prompts(number, method.refill.first_wave(data.prompts_per_step))
        more = StepPrompts(partial(data.first_prompts, number), method.estimator, policy.represent)
        # Beliefs: what pass rate the estimator expects of each prompt.
        with policy.clock.phase("estimate"):
            if method.refill.is_on:
                beliefs: Sequence[Belief] = [belief for _, belief in more.draw(0, len(prompts))]
            else:
                beliefs = method.estimator.predict(prompts, policy.represent)
        figures = data.curriculum.step_figures(self.recall(prompts)) if method.estimator.remembers_prompts else {}
        # Begin: the step says which responses it wants, and asks the sampler for more whenever a block is graded.
        begin: Callable[..., Step] = partial(
            method.begin, prompts, beliefs=beliefs, step=number, num_groups=data.prompts_per_step, draw=more.draw
        )
        seed_generators(seed=service.settings.seed, part="rollout", index=number)
        # Sync and drive: the engine gets the policy's weights, generates and is graded until the step is complete.
        now: dict[str, Any] = {"weights": service.engine.weights_of(policy), "policy_version": policy.policy_version}
        if self._streamed:  # meanwhile each check computes gradients of what is complete
            started = service.start(self._streamed.following(number, begin), **now, ended=self._streamed.note)
            return started(clock=policy.clock, interrupt_check=self._streamed.check_and_compute), figures
        check = policy.interrupt_check
        return service.sample(begin, **now, stage="train", clock=policy.clock, interrupt_check=check), figures

    def _select_and_weigh(self, step: Step, figures: dict[str, float]) -> tuple[Sequence[ResponseGroup], int]:
        # Select: which responses of each pool train; of a step that was filled up, also which pools.
        result = step.result()
        groups = not_refused(result.groups)
        if (division := result.division) is not None:
            num_drawn = result.stats.num_prompts + result.stats.num_skipped_prompts
            self.data.note_used(step.step, num_drawn)  # the next step begins behind these prompts
            figures |= refill_figures(division, num_groups=self.data.prompts_per_step, num_drawn=num_drawn)
            slots = {pool.slot for pool in division.trained}
            groups = tuple(group for group in groups if group.pool.slot in slots)
        # Weigh: an advantage for each response that trains, once, whatever minibatch it falls into.
        rows = self.policy.advantages(groups)
        groups = tuple(group.with_advantages(row) for group, row in zip(groups, rows, strict=True))
        weighed = {id(group.pool): group for group in groups}
        result = replace(result, groups=tuple(weighed.get(id(group.pool), group) for group in result.groups))
        self._groups = result.groups
        figures |= self.method.hints.figures(result.groups)
        self._report(result, groups, figures)
        return groups, result.policy_version

    def _pack(
        self, number: int, groups: Sequence[ResponseGroup], policy_version: int, *, share_done: float
    ) -> list[list[TrainingBatch]]:
        # Pack: minibatches, each in microbatches of nearly equal numbers of tokens, for every replica.
        part = self._streamed.take(groups) if self._streamed else None
        replicas = self.data.pack(
            groups,
            step=number,
            policy_version=policy_version,
            num_replicas=self.policy.ranks.num_replicas,
            keep_all=self.policy.needs_groups_without_signal,
            computed=part.groups if part else (),  # whose gradients are there already
        )
        about: dict[str, Any] = {"share_done": share_done, "lag": self._lag(number), "streamed": part}
        return [[replace(batch, **about) for batch in batches] for batches in replicas]

    def _score_old(self, number: int, batches: list[TrainingBatch]) -> list[TrainingBatch]:
        if self.data.updates_per_rollout == 1 or not batches:
            return batches  # the log-probabilities of the update are the old ones
        # Several updates: the policy says how probable each response is, before the first of them.
        scored = [replace(self.policy.score_old(batch), has_old_logprobs=True) for batch in batches]
        if self.ahead:  # after a stop, the policy that scored this rollout first is gone: what it said is kept
            scored = self.data.with_old_of_before(number, scored)
        # Further epochs: the same minibatches in the same order, as verl's ppo_epochs and TRL's num_iterations do.
        epochs = scored * self.data.epochs_per_rollout
        return [replace(batch, update_index=index) for index, batch in enumerate(epochs)]

    def learn(self, figures: Mapping[str, float]) -> None:
        """Let all that learns do so from a step, when its last update is done and not before.

        A run that is stopped within a step draws that step anew when it goes on, with the same prompts and beliefs. So
        its responses count once. ``figures`` are those of the step.
        """
        groups, self._groups = self._groups, ()
        pools = [group.pool for group in groups]
        # With an engine of its own the rollout may run during updates: then it says itself how long it took.
        rollout_s = figures.get("rollout/latency_s", figures.get("time/rollout_s", 0.0))
        costs = StepCosts.of(groups, rollout_s, figures.get("time/update_s", 0.0))
        number = self.policy.policy_version // self.data.updates_per_rollout - 1
        if self.ahead:
            self.ahead.remind(number)
        # Estimator, sampler, curriculum and selection; the seconds are logged with the next step.
        self.method.learn(pools, figures, curriculum=self.data.curriculum, costs=costs, timed=self.policy.clock.phase)
        if self.ahead:
            self.ahead.note_learned(number)

    def recall(self, prompts: Sequence[Prompt]) -> Sequence[Belief]:
        """Ask what the estimator remembers of prompts; the seconds count."""
        with self.policy.clock.phase("estimate"):
            return self.method.estimator.recall(prompts)

    def _lag(self, number: int) -> int | None:
        return self.ahead.lag(number) if self.ahead else None
