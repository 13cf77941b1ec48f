"""Rollouts and updates that overlap with an exact lag, simulated.

``python -m research.benchmarks.cluster_sim --overlap`` prints and saves what comes of it in the paper's setting. What
``rollout.max_staleness`` means, on a virtual clock: the real steps and samplers draw from simulated engines, up to
k + 1 steps at once, and step s is admitted when update s - k - 1 is done and its weights are published. Three ways to
give a version to the engines:

- ``drained``: one version at a time in all of them. A step of the next one waits until everything older is done, so of
  the lag only the update is hidden. So the product does it with a single engine.
- ``rolling``: engines go over to a version one after another, by the product's own code
  (:mod:`ada_lightning.rollout.engines.request_queue`). So it does with several.
- ``side by side``: every engine serves every version, as it could with adapters. Steps fill each other's tails.

And two ways to use what was sampled: a step trains when all of it is there, or ``streamed``: each prompt is computed as
soon as it is complete and the update before is done, so that only the last prompts and the optimiser are left when the
step ends. What a step samples is the same under all of them and under none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ada_lightning.core.records import Outcome, Prompt, Request, ResponseGroup, SamplingSettings, Verdict
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.methods.selection import BalancedSelection
from research.benchmarks.simulation.engine import SimulatedEngine
from research.benchmarks.simulation.rolling_engine import RollingEngine
from research.scripted import POSITIVE_TOKEN

ASSUMED = {"sync_s": 1.0, "copy_s": 0.2, "optimizer_s": 0.5}
"""Seconds of :class:`OverlappedRun` for 1.5B parameters; the copy is of 3 GB at 15 GB/s."""


@dataclass
class OverlappedRun:
    """Steps and updates on one virtual clock.

    Args:
        engine: simulated, with nothing in flight.
        prompts: of every step.
        sampler: of every step; nothing is learned between them.
        settings: of the steps.
        sampling: how tokens are drawn.
        lag: k.
        update_s: seconds of an update.
        sync_s: seconds from its end to new weights in the engines.
        copy_s: of those, the seconds until the trainer may change its weights again.
        optimizer_s: of an update, the seconds that need the gradients of all prompts.
        drains: whether a version waits until no older one samples.
        rolls: whether engines take a version one after another; the engine is then one that does, and loads for what of
            ``sync_s`` is not ``copy_s``.
        streams: whether prompts are computed as they are complete.
    """

    engine: SimulatedEngine
    prompts: Sequence[Prompt]
    sampler: Any
    settings: StepSettings
    sampling: SamplingSettings
    lag: int
    update_s: float
    sync_s: float = ASSUMED["sync_s"]
    copy_s: float = ASSUMED["copy_s"]
    optimizer_s: float = ASSUMED["optimizer_s"]
    drains: bool = False
    rolls: bool = False
    streams: bool = False
    ends: list[float] = field(default_factory=list)
    """When the weights of each update were published, seconds."""
    versions_at_once: int = 0
    """Most versions that sampled at the same time."""
    _open: dict[int, Step] = field(default_factory=dict)
    _groups: dict[int, tuple[ResponseGroup, ...]] = field(default_factory=dict)
    _sampled_at: dict[int, float] = field(default_factory=dict)
    _completed_at: dict[int, list[float]] = field(default_factory=dict)
    """By step: when each of its pools was complete."""
    _trained_at: float = 0.0
    _in_flight: dict[str, tuple[int, Request]] = field(default_factory=dict)
    _num_of: Counter[int] = field(default_factory=Counter)
    """Requests in flight, by version."""
    _wasted: int = 0
    _committed: int = 0

    def run(self, num_steps: int) -> list[tuple[ResponseGroup, ...]]:
        """Do so many steps; return the groups of each. Later ones begin as well: the last would have it easy alone."""
        while any(step not in self._sampled_at for step in range(num_steps)):
            self._admit()
            self._submit()
            if not self._in_flight:  # the engines wait for an update
                self.engine.now = max(self.engine.now, self._admissible_at(len(self._groups) + len(self._open)))
                continue
            for generation in self.engine.poll():
                if (found := self._ended(generation.request_id)) is not None:
                    self._tell(*found, generation)
            self._finish()
        return [self._groups[step] for step in range(num_steps)]

    def period(self, num_warm: int) -> float:
        """Mean seconds of a step after the first ``num_warm``.

        The first k + 1 begin together and stay bunched, so a whole multiple of k + 1 steps should follow.
        """
        return (self.ends[-1] - self.ends[num_warm - 1]) / (len(self.ends) - num_warm)

    @property
    def waste(self) -> float:
        """Tokens dropped over tokens committed."""
        return self._wasted / self._committed

    def _version(self, step: int) -> int:
        return max(0, step - self.lag)

    def _admissible_at(self, step: int) -> float:
        version = self._version(step)
        if version > len(self.ends):
            return float("inf")
        return self.ends[version - 1] if version else 0.0

    def _admit(self) -> None:
        step = len(self._groups) + len(self._open)
        while self._admissible_at(step) <= self.engine.now:
            if self.drains and any(self._version(other) < self._version(step) for other in self._open):
                return
            self._open[step] = Step(
                [_of_step(prompt, step) for prompt in self.prompts],
                sampler=self.sampler,
                selection=BalancedSelection(group_size=self.sampler.group_size),
                settings=self.settings,
                step=step,
                policy_version=self._version(step),
            )
            step += 1
        self.versions_at_once = max(self.versions_at_once, len({self._version(each) for each in self._open}))

    def _submit(self) -> None:
        """What is asked for in all steps goes before what is drawn ahead in any; the oldest step first."""
        num_slots = self.engine.max_num_seqs
        for ahead in (0, num_slots):
            for number, step in self._open.items():
                for request in step.ask(num_slots - self._num_before(number), ahead):
                    name = f"{number}/{request.slot}/{request.sample_index}"
                    self._in_flight[name] = number, request
                    self._num_of[step.policy_version] += 1
                    version = {"policy_version": step.policy_version} if self.rolls else {}
                    self.engine.submit(name, request.prompt.prompt_ids, self.sampling, request.seed, **version)

    def _num_before(self, number: int) -> int:
        """Requests that take a slot from a step; where engines roll, those of younger versions wait and take none."""
        if not self.rolls:
            return len(self._in_flight)
        return sum(held for version, held in self._num_of.items() if version <= self._version(number))

    def _ended(self, name: str) -> tuple[int, Request] | None:
        if (found := self._in_flight.pop(name, None)) is not None:
            self._num_of[self._version(found[0])] -= 1
        return found

    def _tell(self, number: int, request: Request, generation: Any) -> None:
        step, ids = self._open[number], generation.response_ids
        num_open = step.num_open
        grade = Verdict(float(ids[0] == POSITIVE_TOKEN))
        step.tell(request, Outcome(str(ids[0]), ids, generation.sampling_logprobs, generation.is_truncated, grade))
        self._completed_at.setdefault(number, []).extend([self.engine.now] * (num_open - step.num_open))
        unwanted = [f"{number}/{dropped.slot}/{dropped.sample_index}" for dropped in step.dropped()]
        if running := [name for name in unwanted if self._ended(name)]:
            step.note_wasted(self.engine.abort(running))

    def _finish(self) -> None:
        """Hand complete steps to the trainer, which updates with them in their order."""
        for number in [number for number, step in self._open.items() if step.is_complete]:
            step = self._open.pop(number)
            self._groups[number], self._sampled_at[number] = step.finish(), self.engine.now
            self._wasted += step.stats.wasted_tokens
            self._committed += step.stats.generated_tokens
        while len(self.ends) in self._sampled_at:
            self._train(len(self.ends))
        if isinstance(self.engine, RollingEngine):
            self.engine.retire_before(min(map(self._version, self._open or [len(self._groups)])))

    def _train(self, step: int) -> None:
        free_at = self._trained_at + (min(self.copy_s, self.sync_s) if step else 0.0)
        if self.streams:
            completed_at, optimizer_s = self._completed_at[step], min(self.optimizer_s, self.update_s)
            for at in completed_at:
                free_at = max(free_at, at) + (self.update_s - optimizer_s) / len(completed_at)
            self._trained_at = free_at + optimizer_s
        else:
            self._trained_at = max(free_at, self._sampled_at[step]) + self.update_s
        self.ends.append(self._trained_at + (self.copy_s if self.rolls else self.sync_s))


def _of_step(prompt: Prompt, step: int) -> Prompt:
    """Give a step tokens of its own, so that no cached prefix of another serves it; the first says the pass rate."""
    return replace(prompt, prompt_ids=(prompt.prompt_ids[0], *[step] * (len(prompt.prompt_ids) - 1)))
