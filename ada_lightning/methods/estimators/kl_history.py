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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ada_lightning.core.checks import unmet
from ada_lightning.core.protocols import PolicyView
from ada_lightning.core.records import Belief, KeptResponse, Prompt, Response, ResponseGroup, ResponsePool
from ada_lightning.methods.estimators.counting import CountingEstimator

_UNSEEN = (0.5, 0.5)
"""Counts of a prompt before anything is known of it (authors' code)."""


class KlHistory(CountingEstimator):
    """Beta counts of each prompt, of which the more survives a visit the less the policy has moved on the last one.

    A prompt begins with (1/2, 1/2). Where it begins with a measurement of c positives among n > 1 responses, of its
    first visit or of a history file, it begins with ``N (c + 1/2) / (n + 1)`` and ``N (n - c + 1/2) / (n + 1)``, where
    ``N = 1 / (1 - rho_min)`` is what counts would tend to under the most rapid forgetting.

    Both log-probabilities behind D are those of the trainer, after a step's last update, as in the authors' code: the
    engine's differ from them by more than D. They cost two forward passes for each prompt of a step, one response at a
    time. Checkpoints hold the last response of every prompt that was visited.

    Args:
        rho_min: least share of the counts that survives a visit; also what survives of measurements.
        rho_max: largest share, and that of a prompt visited for the first time.
        half_life: divergence, in nats per token, at which half of the counts would be forgotten.
        history_file: known counts to start from (:mod:`ada_lightning.methods.estimators.history_file`); None starts
            without. What it cost to measure them is in no figure of the run.

    Raises:
        ValueError: shares that are not ``0 < rho_min <= rho_max < 1``, ``half_life`` not positive and finite, or a
            history file that cannot be used; all in one message.

    Source:
        SPO, arXiv:2509.13232; values and the beginning of the authors' code, ``verl-project/verl-recipe``
        ``spo/spo_ray_trainer.py`` and ``spo/train.sh`` at 48ea0a7. The paper begins with ``N c / n`` and
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
    ) -> None:
        errors = unmet(
            (0 < rho_min <= rho_max < 1, "estimator needs 0 < rho_min <= rho_max < 1", f"{rho_min} and {rho_max}"),
            (0 < half_life < math.inf, "estimator.half_life must be positive and finite", half_life),
        )
        super().__init__(history_file, errors)
        self.rho_min = rho_min
        self.rho_max = rho_max
        self.half_life = half_life
        self._known = {
            prompt_id: self.measured(right, responses) for prompt_id, (right, responses) in self._history.counts.items()
        }
        self._last: dict[str, tuple[list[int], list[float]]] = {}
        """Token ids of each prompt's last response, and their log-probabilities after that step's last update."""
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
        for pool in pools:
            if not pool.num_sampled:
                continue
            prompt_id, is_measured = pool.prompt.prompt_id, pool.num_sampled > 1
            rho = self.survival(self._divergence(pool))
            if prompt_id not in self._known and is_measured:
                self._known[prompt_id] = self.measured(pool.num_positive, pool.num_sampled)
            else:
                alpha, beta = self._known.get(prompt_id, _UNSEEN)
                self._known[prompt_id] = rho * alpha + pool.num_positive, rho * beta + pool.num_negative
            if (last := pool.responses[-1]).response_ids:
                self._last[prompt_id] = list(last.response_ids), self._logprobs(pool, last)

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
        last = {prompt_id: [list(ids), list(logprobs)] for prompt_id, (ids, logprobs) in self._last.items()}
        return super().state_dict() | {"last": last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`; it replaces what came from a history file."""
        super().load_state_dict(state)
        self._last = {prompt_id: (list(ids), list(logprobs)) for prompt_id, (ids, logprobs) in state["last"].items()}

    def _belief(self, prompt_id: str) -> Belief:
        if prompt_id not in self._known:
            return Belief(*_UNSEEN)
        alpha, beta = self._known[prompt_id]
        return Belief(alpha, beta, alpha + beta, alpha, is_seen=True)

    def _divergence(self, pool: ResponsePool) -> float:
        """How far the policy has moved on the prompt's last response, mean over tokens, nats; 0 if there is none."""
        if pool.prompt.prompt_id not in self._last:
            return 0.0
        ids, then = self._last[pool.prompt.prompt_id]
        last = replace(pool.responses[0], response_ids=tuple(ids), sampling_logprobs=tuple(then))
        now = self._logprobs(pool, last)
        return math.fsum(abs(new - old) for new, old in zip(now, then, strict=True)) / len(then)

    def _logprobs(self, pool: ResponsePool, response: Response) -> list[float]:
        """Log-probability of every token of a response to the pool's prompt, now; nats."""
        if (policy := self._policy) is None:
            raise RuntimeError(
                "KlHistory asks how far the policy has moved and none is connected: callbacks.adaptive_sampling does "
                "that; without it use estimator=beta_history"
            )
        import torch

        group = ResponseGroup(pool, (KeptResponse(response, 1.0),))
        with torch.no_grad(), policy.forward_context():
            logprobs_K, _ = policy.token_logprobs(policy.model, policy.packed(group))
        values: list[float] = logprobs_K.tolist()
        return values
