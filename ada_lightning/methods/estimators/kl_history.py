"""SPO's value tracker: each prompt's own counts, forgotten by how far the policy has moved on its last response.

Equation: ``alpha <- rho alpha + r``, ``beta <- rho beta + 1 - r``, ``rho = clip(2^(-D / half_life), low,
    high)``, D the mean over tokens of ``|log pi_now - log pi_then|`` of the response of the visit before.
Claim: how much an old outcome still says depends on how far the policy has moved, not on how often the prompt came; so
    one response a visit is enough for a baseline.
Assumption: rewards of 0 and 1; what the policy does to one response tells what it does to the pass rate.
Degenerate: with ``rho`` inside [.875, .96] between 8 and 25 responses count, so outside of D = .0035 to .0116 nats the
    divergence decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ada_lightning.core.checks import unmet
from ada_lightning.core.episode import Episode
from ada_lightning.core.protocols import PolicyView
from ada_lightning.core.records import Belief, KeptResponse, Prompt, Response, ResponseGroup, ResponsePool
from ada_lightning.methods.estimators.counting import CountingEstimator

_UNSEEN = (0.5, 0.5)
"""Counts of a prompt before anything is known of it (authors' code)."""


@dataclass(frozen=True, slots=True)
class _Last:
    """A prompt's last response, and what the policy made of it after the last update of its step."""

    response_ids: list[int]
    logprobs: list[float]
    """Of the tokens that the model drew, nats."""
    is_sampled: list[bool] | None = None
    """Of an episode, whether the model drew each token."""

    def state(self) -> list[list[Any]]:
        """Return it as primitives."""
        return [self.response_ids, self.logprobs, *([] if self.is_sampled is None else [self.is_sampled])]

    def group(self, pool: ResponsePool) -> ResponseGroup:
        """Return it alone with its prompt, in a pool of that."""
        mask = self.is_sampled
        response = replace(
            pool.responses[0],
            response_ids=tuple(self.response_ids),
            sampling_logprobs=(0.0,) * len(self.response_ids),
            episode=None if mask is None else Episode((), tuple(mask), "done"),
        )
        return _alone(pool, response)


class KlHistory(CountingEstimator):
    """Beta counts of each prompt, of which the more survives a visit the less the policy has moved on the last one.

    A prompt begins with (1/2, 1/2). Where it begins with a measurement of c positives among n > 1 responses, of its
    first visit or of a history file, it begins with ``N (c + 1/2) / (n + 1)`` and ``N (n - c + 1/2) / (n + 1)``, where
    ``N = 1 / (1 - rho_min)`` is what counts would tend to under the most rapid forgetting.

    Both log-probabilities behind D are those of the trainer, after a step's last update, as in the authors' code: the
    engine's differ from them by more than D. They cost two responses' forward passes for each prompt of a step.
    Checkpoints hold the last response of every prompt that was visited.

    Args:
        rho_min: least share of the counts that survives a visit; also what survives of measurements.
        rho_max: largest share, and that of a prompt visited for the first time.
        half_life: divergence, in nats per token, at which half of the counts would be forgotten.
        history_file: known counts to start from (:mod:`ada_lightning.methods.estimators.history_file`); None starts
            without. What it cost to measure them is in no figure of the run.
        max_tokens: tokens of a forward pass, prompts included; a response that is longer by itself stands alone.

    Raises:
        ValueError: shares that are not ``0 < rho_min <= rho_max < 1``, ``half_life`` not positive and finite,
            ``max_tokens`` below 1, or a history file that cannot be used; all in one message.

    Source:
        SPO, arXiv:2509.13232; values and the beginning of the authors' code, verl-project/verl-recipe at 48ea0a7:
        ``spo/spo_ray_trainer.py`` and ``spo/train.sh``. The paper begins with ``N c / n`` and
        ``N (n - c) / n``.

    Example:
        >>> KlHistory().measured(2, 8)
        (2.2222222222222223, 5.777777777777778)
    """

    def __init__(
        self,
        *,
        rho_min: float = 0.875,
        rho_max: float = 0.96,
        half_life: float = 0.06,
        history_file: str | None = None,
        max_tokens: int = 1024,
    ) -> None:
        errors = unmet(
            (0 < rho_min <= rho_max < 1, "estimator needs 0 < rho_min <= rho_max < 1", f"{rho_min} and {rho_max}"),
            (0 < half_life < math.inf, "estimator.half_life must be positive and finite", half_life),
            (max_tokens >= 1, "estimator.max_tokens must be at least 1", max_tokens),
        )
        super().__init__(history_file, errors)
        self.rho_min = rho_min
        self.rho_max = rho_max
        self.half_life = half_life
        self.max_tokens = max_tokens
        self._known = {
            prompt_id: self.measured(right, responses) for prompt_id, (right, responses) in self._history.counts.items()
        }
        self._last: dict[str, _Last] = {}
        """Of each prompt that was visited."""
        self._policy: PolicyView | None = None

    def measured(self, num_positive: float, num_responses: float) -> tuple[float, float]:
        """Return the counts that a measurement is worth, however many responses it had."""
        share = (num_positive + 0.5) / (num_responses + 1) / (1 - self.rho_min)
        return share, 1 / (1 - self.rho_min) - share

    def connect(self, policy: PolicyView) -> None:
        """Remember whose log-probabilities to take."""
        self._policy = policy

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Let the counts of these prompts fade by how far the policy has moved, and add those of the step.

        Raises:
            RuntimeError: no policy is connected.
        """
        visited = [pool for pool in pools if pool.num_sampled]
        moved = self._divergences(visited)
        self._remember([pool for pool in visited if pool.responses[-1].num_tokens])
        for pool in visited:
            prompt_id, is_measured = pool.prompt.prompt_id, pool.num_sampled > 1
            rho = self.survival(moved.pop(prompt_id, 0.0))  # a prompt that came twice in a step has not moved between
            if prompt_id not in self._known and is_measured:
                self._known[prompt_id] = self.measured(pool.num_positive, pool.num_sampled)
            else:
                alpha, beta = self._known.get(prompt_id, _UNSEEN)
                self._known[prompt_id] = rho * alpha + pool.num_positive, rho * beta + pool.num_negative

    def survival(self, divergence: float) -> float:
        """Return rho, the share of a prompt's counts that survives a visit.

        Example:
            >>> [round(KlHistory().survival(divergence), 5) for divergence in (0.003, 0.006, 0.03)]
            [0.96, 0.93303, 0.875]
        """
        return min(max(2.0 ** (-divergence / self.half_life), self.rho_min), self.rho_max)

    def recall(self, prompts: Sequence[Prompt]) -> list[Belief]:
        """Return the counts of each prompt, as they are."""
        return [self._belief(prompt.prompt_id) for prompt in prompts]

    def state_dict(self) -> dict[str, Any]:
        """Counts by prompt id, and the last response of each with its log-probabilities."""
        last = {prompt_id: each.state() for prompt_id, each in self._last.items()}
        return super().state_dict() | {"last": last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`; it replaces what came from a history file."""
        super().load_state_dict(state)
        self._last = {prompt_id: _Last(*each) for prompt_id, each in state["last"].items()}

    def _belief(self, prompt_id: str) -> Belief:
        if prompt_id not in self._known:
            return Belief(*_UNSEEN)
        alpha, beta = self._known[prompt_id]
        return Belief(alpha, beta, alpha + beta, alpha, is_seen=True)

    def _divergences(self, pools: Sequence[ResponsePool]) -> dict[str, float]:
        """How far the policy has moved on each prompt's last response, mean over tokens, nats; where there is one."""
        seen = {pool.prompt.prompt_id: pool for pool in pools if pool.prompt.prompt_id in self._last}
        before = [self._last[prompt_id] for prompt_id in seen]
        now = self._logprobs([last.group(pool) for last, pool in zip(before, seen.values(), strict=True)])
        return {
            prompt_id: math.fsum(abs(new - old) for new, old in zip(values, last.logprobs, strict=True)) / len(values)
            for prompt_id, last, values in zip(seen, before, now, strict=True)
        }

    def _remember(self, pools: Sequence[ResponsePool]) -> None:
        """Keep each pool's last response, with what the policy makes of it now."""
        groups = [_alone(pool, pool.responses[-1]) for pool in pools]
        for group, logprobs in zip(groups, self._logprobs(groups), strict=True):
            last = group.kept[0].response
            mask = None if last.episode is None else list(last.episode.is_sampled)
            self._last[group.pool.prompt.prompt_id] = _Last(list(last.response_ids), logprobs, mask)

    def _logprobs(self, groups: Sequence[ResponseGroup]) -> list[list[float]]:
        """Log-probability of every token that the model drew in each group's one response, now; nats."""
        if not groups:
            return []
        if (policy := self._policy) is None:
            raise RuntimeError(
                "KlHistory asks how far the policy has moved and none is connected: callbacks.adaptive_sampling does "
                "that; without it use estimator=beta_history"
            )
        import torch

        found: list[list[float]] = []
        with torch.no_grad(), policy.forward_context():
            for part in self._parts(groups):
                logprobs_K, _ = policy.token_logprobs(policy.model, policy.packed(*part))
                values = iter(logprobs_K.tolist())
                found += [list(islice(values, group.kept[0].response.num_tokens)) for group in part]
        return found

    def _parts(self, groups: Sequence[ResponseGroup]) -> Iterator[list[ResponseGroup]]:
        """Cut into forward passes of as many responses as fit, in their order."""
        part: list[ResponseGroup] = []
        num_tokens = 0
        for group in groups:
            length = len(group.pool.prompt.prompt_ids) + len(group.kept[0].response.response_ids)
            if part and num_tokens + length > self.max_tokens:
                yield part
                part, num_tokens = [], 0
            part.append(group)
            num_tokens += length
        yield part


def _alone(pool: ResponsePool, response: Response) -> ResponseGroup:
    return ResponseGroup(pool, (KeptResponse(response, 1.0),))
