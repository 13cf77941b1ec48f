"""Rollout steps that older policies sample ahead of time, with an exact lag.

Step s samples from the policy of step s - k. Its prompts, beliefs and sampler are fixed, and its policy is published,
once step s - k - 1 has been learned from. It may be sampled from then on, during the updates of the k steps before it,
or when its turn has come. Both give the same step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ada_lightning.core.method import Method
from ada_lightning.core.prepared_step import PreparedStep, sampling_version
from ada_lightning.core.records import Prompt
from ada_lightning.core.step import Step
from ada_lightning.rollout.engines.published_weights import on_cpu
from ada_lightning.rollout.probe import Canary
from ada_lightning.rollout.sampling_thread import Sample
from ada_lightning.rollout.service import RolloutService
from ada_lightning.run.determinism import seed_generators

if TYPE_CHECKING:
    from ada_lightning.data.datamodule import RolloutDataModule
    from ada_lightning.training.policy import PolicyModule
    from ada_lightning.training.streamed import StreamedGradients


class AsyncRollouts:
    """Prepares up to k + 1 steps, has them sampled, and holds the weights for it as long as they are needed.

    Between two steps it holds k versions besides the policy's own, and one more from a rollout until its last update.

    Args:
        method: of the run; its estimator predicts, its sampler is frozen.
        policy: that trains.
        data: chooses prompts.
        service: whose ``max_staleness`` is k.
        streamed: computes gradients of what is complete of the step whose turn it is; None: nothing does.
    """

    def __init__(
        self,
        method: Method,
        *,
        policy: PolicyModule,
        data: RolloutDataModule,
        service: RolloutService,
        streamed: StreamedGradients | None = None,
    ) -> None:
        self.max_staleness = service.max_staleness
        self._method, self._policy, self._data, self._service = method, policy, data, service
        self._streamed = streamed
        self._steps: dict[int, PreparedStep] = {}
        self._restored: list[Mapping[str, Any]] = []
        """Prepared steps of a checkpoint, until the training prompts are at hand."""
        self._started: dict[int, Sample] = {}
        self._ring = WeightRing()
        self._canary_logprobs: dict[int, Tensor] = {}
        """What the policy said of the tokens after each prefix, by version. Shape ``(L, V)``."""
        self._canary: Canary | None = None
        self._canary_gaps: dict[int, float] = {}
        """By step: how far engine and trainer disagreed about the version that sampled it."""

    def sample(self, step: int) -> tuple[Step, dict[str, float]]:
        """Return a complete step that is to be trained on now, with its figures, and go on sampling those after it.

        Raises:
            EngineError: as :meth:`~ada_lightning.rollout.service.RolloutService.sample` does.
            RunStoppedError: as there.
        """
        policy, streamed, last = self._policy, self._streamed, step + self.max_staleness
        # Choose prompts and beliefs of every step up to the youngest that the policy of now samples.
        self._prepare(step, until=last)
        # Keep the weights of now for that one, and start all that are not sampled yet.
        self._publish()
        for number in range(step, min(last + 1, self._data.num_steps)):
            if number in self._steps and number not in self._started:
                self._started[number] = self._start(self._steps[number])
        # Wait for the step whose turn it is.
        seed_generators(seed=self._service.settings.seed, part="rollout", index=step)
        check = policy.interrupt_check if streamed is None else streamed.check_and_compute
        sampled = self._started.pop(step)(clock=policy.clock, interrupt_check=check)
        return sampled, self._figures(self._steps[step], sampled.stats.seconds)

    def is_over(self, step: int) -> bool:
        """Whether a stream of prompts has ended before a step."""
        self._resolve()
        return step not in self._steps and self._data.is_over(step)

    def lag(self, step: int) -> int:
        """Return by how many updates the policy that samples a step is older than the one that trains on it."""
        return min(step, self.max_staleness) * self._data.updates_per_rollout

    def _prepare(self, first: int, *, until: int) -> None:
        """Fix every step from ``first`` up to ``until`` that is not, by what is known now.

        Steps beyond the run's last are, too. They cost little, are never sampled, and a run that is continued with more
        steps finds them.
        """
        self._resolve()
        for step in range(max(self._steps, default=first - 1) + 1, until + 1):
            if self._data.is_over(step):
                return
            self._steps[step] = self._prepared(step)

    def _publish(self) -> None:
        """Keep the policy as it is, before the updates of a step, for the step that will sample from it."""
        policy, engine = self._policy, self._service.engine
        version = policy.policy_version
        if version % self._data.updates_per_rollout or version in self._ring.versions:
            return
        with policy.clock.phase("sync"):
            self._ring.hold(version, engine.weights_of(policy)(), engine.weight_dtype)
            canary = self._first_prompt
            self._canary_logprobs[version] = policy.next_token_logprobs(canary.token_ids, canary.num_prefixes)

    def _start(self, prepared: PreparedStep) -> Sample:
        version, streamed = prepared.policy_version, self._streamed
        begin = partial(
            self._method.begin,
            prepared.prompts,
            sampler=prepared.sampler,
            hints=prepared.hints,
            beliefs=prepared.beliefs,
            step=prepared.step,
        )
        return self._service.start(
            begin if streamed is None else streamed.following(prepared.step, begin),
            weights=lambda: self._ring.read(version),
            policy_version=version,
            probe=self._first_prompt.probe(
                self._canary_logprobs[version], partial(self._canary_gaps.__setitem__, prepared.step)
            ),
            ended=streamed.note if streamed is not None else lambda pool: None,
        )

    def _figures(self, prepared: PreparedStep, sampling_s: float) -> dict[str, float]:
        """Return how old the policy is that sampled the step, and whether its weights had arrived."""
        version, per_step = self._policy.policy_version, self._data.updates_per_rollout
        lag = version - version % per_step - prepared.policy_version
        beside = {"rollout/latency_s": sampling_s} if self._service.samples_beside_trainer else {}
        return {
            **prepared.figures,
            **beside,
            "staleness/steps": lag / per_step,
            "staleness/versions": float(lag),
            "sync/canary_gap": self._canary_gaps.pop(prepared.step),
        }

    def remind(self, step: int) -> None:
        """Tell the estimator again what it was told of a step's prompts: it learns by that, and has seen others since.

        What it predicts of them now goes nowhere.
        """
        prepared = self._steps[step]
        if prepared.representations is not None:
            by_id = {
                prompt.prompt_id: row for prompt, row in zip(prepared.prompts, prepared.representations, strict=True)
            }
            self._method.estimator.predict(prepared.prompts, lambda prompts: _rows(by_id, prompts))

    def note_learned(self, step: int) -> None:
        """Forget a step, and weights that no later one samples from."""
        del self._steps[step]
        needed = self._version(step + 1)
        self._ring.retire_before(needed)
        self._canary_logprobs = {version: rows for version, rows in self._canary_logprobs.items() if version >= needed}

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs: the steps under way, which it draws anew, and the policies that draw them."""
        return {
            "max_staleness": self.max_staleness,
            "steps": [prepared.to_plain() for prepared in self._steps.values()] or list(self._restored),
            "weights": self._ring.state_dict(),
            "canary": dict(self._canary_logprobs),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._restored = list(state["steps"])
        self._ring.load_state_dict(state["weights"])
        self._canary_logprobs = {int(version): rows for version, rows in state["canary"].items()}

    def _resolve(self) -> None:
        """Find the prompts of restored steps."""
        restored, self._restored = self._restored, []
        for plain in restored:
            prepared = PreparedStep.from_plain(
                plain, prompts=self._data.train_prompts, sampler=self._method.sampler, hints=self._method.hints
            )
            self._steps[prepared.step] = prepared

    def _prepared(self, step: int) -> PreparedStep:
        seed_generators(seed=self._service.settings.seed, part="prepare", index=step)
        estimator, seen = self._method.estimator, _Represented(self._policy)
        prompts = self._data.step_prompts(step)
        with self._policy.clock.phase("estimate"):
            beliefs = estimator.predict(prompts, seen)
            recalled = estimator.recall(prompts) if estimator.remembers_prompts else None
        return PreparedStep(
            step=step,
            policy_version=self._version(step),
            prompts=tuple(prompts),
            beliefs=tuple(beliefs),
            sampler=self._method.sampler.frozen(),
            hints=self._method.hints.frozen() if self._method.hints.is_on else None,
            figures={} if recalled is None else self._data.curriculum.step_figures(recalled),
            representations=seen.of(prompts),
        )

    def _version(self, step: int) -> int:
        per_step = self._data.updates_per_rollout
        return sampling_version(step, max_staleness=self.max_staleness, updates_per_rollout=per_step)

    @property
    def _first_prompt(self) -> Canary:
        """Whose tokens tell whether weights have arrived."""
        if self._canary is None:
            self._canary = Canary(self._data.train_prompts[0].prompt_ids, self._service.sampling)
        return self._canary


def check_same_lag(*, now: int, before: int) -> None:
    """Compare ``rollout.max_staleness`` with that of the run that is to be continued.

    Raises:
        ValueError: it is another one.
    """
    if now != before:
        raise ValueError(
            f"rollout.max_staleness = {now}, but this run has prepared its steps with {before}; continue with "
            f"rollout.max_staleness={before} or start a new run"
        )


class WeightRing:
    """Holds whole copies of the policy on the CPU, by version: 2 bytes a parameter each, for an engine in bfloat16."""

    def __init__(self) -> None:
        self._tensors: dict[int, dict[str, Tensor]] = {}

    @property
    def versions(self) -> list[int]:
        """Versions held, in ascending order."""
        return sorted(self._tensors)

    def hold(self, version: int, named_tensors: Iterable[tuple[str, Tensor]], weight_dtype: str) -> None:
        """Copy the weights of a version; ``weight_dtype`` as :attr:`~ada_lightning.core.protocols.RolloutEngine`'s."""
        # A parameter on the CPU and in the engine's type would be passed on as it is, and then move with the updates.
        self._tensors[version] = {name: tensor.clone() for name, tensor in on_cpu(named_tensors, weight_dtype)}

    def read(self, version: int) -> Iterator[tuple[str, Tensor]]:
        """Yield the named tensors of a version.

        Raises:
            KeyError: it is not held.
        """
        yield from self._tensors[version].items()

    def retire_before(self, version: int) -> None:
        """Free every version that is older."""
        for old in [held for held in self._tensors if held < version]:
            del self._tensors[old]

    def state_dict(self) -> dict[str, Any]:
        """Tensors by version. Whether they are as they were written says the checkpoint's manifest."""
        return {"tensors": {version: dict(tensors) for version, tensors in self._tensors.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._tensors = {int(version): dict(tensors) for version, tensors in state["tensors"].items()}


class _Represented:
    """Asks the policy about prompts, and keeps what it says."""

    def __init__(self, policy: PolicyModule) -> None:
        self._policy = policy
        self._rows: dict[str, Tensor] = {}

    def __call__(self, prompts: Sequence[Prompt]) -> Tensor:
        rows_PH = self._policy.represent(prompts)
        self._rows |= {prompt.prompt_id: row for prompt, row in zip(prompts, rows_PH, strict=True)}
        return rows_PH

    def of(self, prompts: Sequence[Prompt]) -> Tensor | None:
        """Return what was said of all of these, None where some were not asked about. Shape ``(P, H)``."""
        if not all(prompt.prompt_id in self._rows for prompt in prompts):
            return None
        return _rows(self._rows, prompts)


def _rows(by_id: Mapping[str, Tensor], prompts: Sequence[Prompt]) -> Tensor:
    return torch.stack([by_id[prompt.prompt_id] for prompt in prompts])
