"""prime-rl's task sampler, gate and training source on a memory: which task comes next, and what of a group trains."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prime_rl.orchestrator import train_source
from prime_rl.orchestrator.algo.routing import assign_advantages
from prime_rl.orchestrator.curriculum import AdmissionGate, TaskSampler

from ada_lightning.adapters.brain import Brain
from ada_lightning.adapters.brain_records import Handout
from ada_lightning.adapters.prime_rl.settings import EnvSettings, approximations
from ada_lightning.config.problems import ConfigError

TRAINER = "prime-rl"


class AdaSampler(TaskSampler):
    """Chooses the task of each group, and learns from the groups that come back.

    prime-rl asks whenever it has room, and takes no for no answer. So up to ``open_steps`` steps are under way. Where
    more are asked for, what is missing of the oldest is given up: ungraded, and no evidence.

    Args:
        settings: of the environment.
        tasks: all of them, each with a key of its own.
        max_off_policy_steps: prime-rl's. A group that was handed out longer ago cannot train any more, and nobody else
            would say so.

    Raises:
        ConfigError: the method cannot work here.
    """

    def __init__(self, settings: EnvSettings, tasks: Sequence[Any], *, max_off_policy_steps: int) -> None:
        self._tasks = {str(task.key): task for task in tasks}
        self._group_size, self._max_age = settings.group_size, max_off_policy_steps
        self.brain = Brain(
            settings.method,
            {key: str(getattr(task.data, "prompt_text", "") or key) for key, task in self._tasks.items()},
            num_prompts=settings.num_prompts,
            max_tokens=settings.max_tokens,
            seed=settings.seed,
            open_steps=settings.open_steps,
            trainer=TRAINER,
            **{"group_size": settings.group_size, **(settings.overrides or {})},
        )
        if problems := list(_refusals(self.brain, settings)):
            raise ConfigError(problems)
        self.brain.reasons = approximations(max_off_policy_steps)
        self.now = 0
        """Step of prime-rl's run."""
        self._flying: dict[str, deque[tuple[int, Handout]]] = {}
        """Groups that are drawn, oldest first, by task, with the step of the run in which each was handed out."""
        self._last: tuple[list[Any], dict[int, float]] = [], {}
        self._figures: dict[str, float] = {}

    def __next__(self) -> Any:
        """Return the task of the next group."""
        while (handout := self.brain.hand_out()) is None:
            self.brain.give_up("late", self.brain.step)
            self._finish()
        self._flying.setdefault(handout.prompt_id, deque()).append((self.now, handout))
        return self._tasks[handout.prompt_id]

    def observe(self, group: list[Any]) -> None:
        """Tell the core of a group.

        Args:
            group: episodes of one task, as prime-rl scored them.

        Raises:
            ValueError: an episode with several traces that train: which of them is the response?
        """
        traces = [_trace(episode) for episode in group]
        visits = self._flying.get(str(group[0].task.key))
        self._last = traces, {}
        if not visits:
            return
        _, handout = visits.popleft()
        found: list[Any] = [*traces, *[None] * (len(handout.indices) - len(traces))]
        results = {index: _result(trace) for index, trace in zip(handout.indices, found, strict=False)}
        if self.brain.add(handout.step, handout.slot, results):
            rows = self.brain.rows_of(handout.step, handout.slot) or []
            self._last = traces, {handout.indices.index(row.index): row.advantage for row in rows}
        self._finish()

    def weigh(self) -> bool:
        """Write the method's advantages into the group that was observed last, and say whether any is there."""
        traces, advantages = self._last
        for place, trace in enumerate(traces):
            if trace is not None and not trace.has_error:
                assign_advantages(trace, advantages.get(place, 0.0))
        return bool(advantages)

    def look_at_the_time(self, step: int) -> None:
        """Give up groups that are too old to train: prime-rl drops them without a word to the sampler.

        Args:
            step: of prime-rl's run.
        """
        self.now = step
        for visits in self._flying.values():
            while visits and step - visits[0][0] > self._max_age:
                _, handout = visits.popleft()
                self.brain.give_up("stale", handout.step, handout.slot)
        self._finish()

    def state_dict(self) -> dict[str, Any]:
        """Return what is learned; groups under way are drawn anew."""
        return {"brain": self.brain.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.brain.load_state_dict(state["brain"])
        self._flying.clear()

    def metrics(self) -> dict[str, float]:
        """Return figures of the last step of the method."""
        return self._figures

    def _finish(self) -> None:
        while (finished := self.brain.finish()) is not None:
            self._figures = finished.figures


class AdaGate(AdmissionGate):
    """Lets a group train that has a weight, with the method's weights.

    Args:
        sampler: that has just observed the group.
    """

    def __init__(self, sampler: AdaSampler) -> None:
        self._sampler = sampler

    def admit(self, group: list[Any]) -> bool:
        """Weigh the group."""
        return self._sampler.weigh()


def source_class(settings: Mapping[str, EnvSettings], max_off_policy_steps: int) -> type:
    """Return a class for prime-rl's training source, some of whose environments a method drives.

    Args:
        settings: by the name of an environment.
        max_off_policy_steps: prime-rl's.
    """

    class AdaTrainSource(train_source.TrainSource):
        def __init__(self, train_envs: Any) -> None:
            super().__init__(train_envs)
            self.adaptive: list[AdaSampler] = []
            for name, wanted in settings.items():
                curriculum = self.curricula[name]
                tasks = curriculum.sampler.tasks
                if tasks is None:
                    raise ConfigError([f"{name} has no end of tasks, and a method chooses from a list; use num_tasks"])
                sampler = AdaSampler(wanted, tasks, max_off_policy_steps=max_off_policy_steps)
                curriculum.sampler, curriculum.gates["ada"] = sampler, AdaGate(sampler)
                self.adaptive.append(sampler)
                print(f"{name}: {sampler.brain.statement()}", flush=True)

        def next_task(self, *, step: int) -> Any:
            for sampler in self.adaptive:
                sampler.look_at_the_time(step)
            return super().next_task(step=step)

    return AdaTrainSource


def _trace(episode: Any) -> Any:
    """Return the one trace that trains; None where the episode failed before it had any."""
    traces = [trace for trace in episode.traces if trace.agent.trainable]
    if len(traces) > 1:
        raise ValueError(
            f"an episode of task {episode.task.key} has {len(traces)} traces that train; a method counts responses, so "
            "use an environment with one, or leave this one out of the file"
        )
    return traces[0] if traces else None


def _result(trace: Any) -> dict[str, Any]:
    if trace is None or trace.has_error:
        return {"failed": "infrastructure", "num_tokens": 0}
    logprobs = [value for node in trace.nodes for value in node.logprobs]
    return {
        "reward": float(trace.reward),
        "num_tokens": int(trace.num_output_tokens),
        "is_truncated": bool(trace.is_truncated),
        "logprobs": logprobs,
    }


def _refusals(brain: Brain, settings: EnvSettings) -> Iterator[str]:
    name = settings.method
    for part in brain.core.step_wide():
        yield f"{name}: {part} looks at a whole step, and prime-rl trains a group as soon as it is there"
    if not brain.core.draws_one_group(settings.group_size):
        yield (
            f"{name} draws a prompt in blocks, or as often as it deserves, and prime-rl draws groups of "
            f"{settings.group_size}: use a method with fixed groups, such as grpo_chosen, ada or grpo"
        )


__all__ = ["AdaGate", "AdaSampler", "source_class"]
