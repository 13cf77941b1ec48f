"""Rollout steps prepared before their turn, and the older policies that sample them: an exact lag.

Step s samples from the policy of step s - k. Its prompts, its beliefs and its sampler are fixed when step s - k - 1 has
been learned from, and its policy is published then: it may be sampled from then on, beside the updates of the k steps
before it, or when its turn has come. That is the same step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ada_lightning.analysis.metrics.curriculum import curriculum_figures
from ada_lightning.core.method import Method
from ada_lightning.core.prepared_step import PreparedStep, sampling_version
from ada_lightning.core.records import Prompt
from ada_lightning.core.step_records import RolloutResult
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.rollout.probe import Canary
from ada_lightning.rollout.sampling_thread import Sample
from ada_lightning.rollout.service import RolloutService
from ada_lightning.rollout.weight_ring import WeightRing
from ada_lightning.run.determinism import seed_generators
from ada_lightning.training.policy import PolicyModule
from ada_lightning.training.streamed import StreamedGradients


class StepsAhead:
    """Prepares up to k + 1 steps, has them sampled, and holds the weights for it as long as they are needed.

    Between two steps it holds k versions besides the policy's own, and one more from a rollout until its last update.

    Args:
        method: of the run; its estimator predicts, its sampler is frozen.
        service: whose ``max_staleness`` is k.
    """

    def __init__(self, method: Method, service: RolloutService) -> None:
        self.max_staleness = service.max_staleness
        self._method, self._service = method, service
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

    def rollout(
        self, policy: PolicyModule, data: RolloutDataModule, step: int, streamed: StreamedGradients | None
    ) -> tuple[RolloutResult, dict[str, float]]:
        """Return a step that is to be trained on now, with its figures, and go on sampling those after it.

        ``streamed`` computes gradients of what is complete of it meanwhile.

        Raises:
            EngineError: as :meth:`~ada_lightning.rollout.service.RolloutService.sample` does.
            RunStoppedError: as there.
        """
        self._prepare(policy, data, until=step + self.max_staleness)
        self._publish(policy, data)
        for number in range(step, min(step + self.max_staleness + 1, data.num_steps)):
            if number not in self._started:
                self._started[number] = self._start(self._steps[number], data, streamed)
        seed_generators(seed=self._service.settings.seed, part="rollout", index=step)
        check = policy.interrupt_check if streamed is None else streamed.check_and_compute
        sampled = self._started.pop(step)(clock=policy.clock, interrupt_check=check)
        return sampled.result(), self._figures(self._steps[step], sampled.stats.seconds, policy, data)

    def _prepare(self, policy: PolicyModule, data: RolloutDataModule, *, until: int) -> None:
        """Fix every step up to this one that is not, by what is known now. Steps beyond the run's last are, too.

        They cost little, are never sampled, and a run that is continued with more steps finds them.
        """
        self._resolve(data)
        for step in range(max(self._steps, default=-1) + 1, until + 1):
            self._steps[step] = self._prepared(policy, data, step)

    def _publish(self, policy: PolicyModule, data: RolloutDataModule) -> None:
        """Keep the policy as it is, before the updates of a step, for the step that will sample from it."""
        version = policy.policy_version
        if version % data.updates_per_rollout or version in self._ring.versions:
            return
        with policy.clock.phase("sync"):
            self._ring.hold(version, policy.engine_weights(), self._service.engine.weight_dtype)
            canary = self._canary_of(data)
            self._canary_logprobs[version] = policy.next_token_logprobs(canary.token_ids, canary.num_prefixes)

    def _start(self, prepared: PreparedStep, data: RolloutDataModule, streamed: StreamedGradients | None) -> Sample:
        version = prepared.policy_version
        begin = partial(
            self._method.begin,
            prepared.prompts,
            sampler=prepared.sampler,
            beliefs=prepared.beliefs,
            step=prepared.step,
        )
        return self._service.start(
            begin if streamed is None else streamed.following(prepared.step, begin),
            weights=lambda: self._ring.read(version),
            policy_version=version,
            probe=self._canary_of(data).probe(
                self._canary_logprobs[version], partial(self._canary_gaps.__setitem__, prepared.step)
            ),
            ended=streamed.note if streamed is not None else lambda pool: None,
        )

    def _figures(
        self, prepared: PreparedStep, sampling_s: float, policy: PolicyModule, data: RolloutDataModule
    ) -> dict[str, float]:
        """Return how old the policy is that sampled the step, and whether its weights had arrived."""
        lag = policy.policy_version - policy.policy_version % data.updates_per_rollout - prepared.policy_version
        beside = {"rollout/latency_s": sampling_s} if self._service.samples_beside_trainer else {}
        return {
            **prepared.figures,
            **beside,
            "staleness/steps": lag / data.updates_per_rollout,
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

    def note_learned(self, step: int, *, updates_per_rollout: int) -> None:
        """Forget a step, and weights that no later one samples from."""
        del self._steps[step]
        needed = self._version(step + 1, updates_per_rollout)
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

    def _resolve(self, data: RolloutDataModule) -> None:
        """Find the prompts of restored steps."""
        restored, self._restored = self._restored, []
        for plain in restored:
            prepared = PreparedStep.from_plain(plain, prompts=data.train_prompts, sampler=self._method.sampler)
            self._steps[prepared.step] = prepared

    def _prepared(self, policy: PolicyModule, data: RolloutDataModule, step: int) -> PreparedStep:
        seed_generators(seed=self._service.settings.seed, part="prepare", index=step)
        estimator, seen = self._method.estimator, _Represented(policy)
        prompts = data.step_prompts(step)
        with policy.clock.phase("estimate"):
            beliefs = estimator.predict(prompts, seen)
            recalled = estimator.recall(prompts) if estimator.remembers_prompts else None
        return PreparedStep(
            step=step,
            policy_version=self._version(step, data.updates_per_rollout),
            prompts=tuple(prompts),
            beliefs=tuple(beliefs),
            sampler=self._method.sampler.frozen(),
            figures={} if recalled is None else curriculum_figures(data.curriculum, recalled),
            representations=seen.of(prompts),
        )

    def _version(self, step: int, updates_per_rollout: int) -> int:
        return sampling_version(step, max_staleness=self.max_staleness, updates_per_rollout=updates_per_rollout)

    def _canary_of(self, data: RolloutDataModule) -> Canary:
        if self._canary is None:
            self._canary = Canary(data.train_prompts[0].prompt_ids, self._service.sampling)
        return self._canary


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
