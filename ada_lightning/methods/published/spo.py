"""SPO (arXiv:2509.13232, ICLR 2026): one response a prompt, its baseline what is remembered of the prompt.

A prompt's counts are forgotten by how far the policy has moved on its last response; prompts are drawn from all of them
by how uncertain their outcome is.

Equation: ``alpha <- rho alpha + r``, ``beta <- rho beta + 1 - r``, ``rho = clip(2^(-D / half_life), low,
    high)``, D the mean over tokens of ``|log pi_now - log pi_then|`` of the response of the visit before.
Claim: how much an old outcome still says depends on how far the policy has moved, not on how often the prompt came; so
    one response a visit is enough for a baseline.
Assumption: rewards of 0 and 1; what the policy does to one response tells what it does to the pass rate.
Degenerate: with ``rho`` inside [.875, .96] between 8 and 25 responses count, so outside of D = .0035 to .0116 nats the
    divergence decides nothing.
Fidelity: faithful (code). 128 prompts a step, theirs 1024; a step begins where the history is (1/2, 1/2) unless a
    measurement is given.

Source: verl-project/verl-recipe at 48ea0a7, ``spo/spo_ray_trainer.py`` and ``spo/train.sh``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.checks import unmet
from ada_lightning.core.episode import Episode
from ada_lightning.core.options import option, use
from ada_lightning.core.prompt_columns import BeliefColumns, Flags, Floats, PromptNumbers, PromptTable
from ada_lightning.core.protocols import Curriculum, PolicyView, Recall
from ada_lightning.core.records import Belief, KeptResponse, Prompt, Response, ResponseGroup, ResponsePool
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.curriculum.draws import largest, uniform_draws
from ada_lightning.methods.estimators.counting import CountingEstimator
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler

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


@option("estimator", "kl_history")
class KlHistory(CountingEstimator):
    """SPO's tracker: each prompt's counts, forgotten by how far the policy moved on the prompt's last response.

    arXiv:2509.13232; values of spo/ in verl-project/verl-recipe at 48ea0a7. It costs forward passes of two responses
    for each prompt of a step. Both log-probabilities behind D are those of the trainer, after a step's last update, as
    in the authors' code: the engine's differ from them by more than D. Checkpoints hold the last response of every
    prompt that was visited.

    A prompt begins with (1/2, 1/2). It may also begin with a measurement of c positives among n > 1 responses, from its
    first visit or a history file. Then it begins with ``N (c + 1/2) / (n + 1)`` and ``N (n - c + 1/2) / (n + 1)``. ``N
    = 1 / (1 - rho_min)`` is what counts would tend to under the most rapid forgetting. The paper begins with ``N c /
    n`` and ``N (n - c) / n``; this is the code's.

    Args:
        rho_min: least share of a prompt's counts that survives a visit, so that at least 8 responses count; also what
            survives of measurements.
        rho_max: largest share, so that at most 25 responses count, and that of a prompt visited for the first time.
        half_life: divergence, in nats per token, by which the policy moves until half of the counts is forgotten.
        history_file: known counts to start from: a run's history.json (``{prompt id: [positives, responses]}``) or
            measured pass rates as .parquet (``prompt_id, num_positive, num_samples``); None: none.
            What it cost to measure them is in no figure of the run.
        max_tokens: tokens of a forward pass, prompts included; a response that is longer by itself stands alone.

    Raises:
        ValueError: shares that are not ``0 < rho_min <= rho_max < 1``, ``half_life`` not positive and finite,
            ``max_tokens`` below 1, or a history file that cannot be used; all in one message.

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
        counts = self._history.counts
        measured = {prompt_id: self.measured(*known) for prompt_id, known in counts.items()}
        self._known = PromptNumbers(measured, unknown=_UNSEEN)
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

    def recall(self, prompts: Sequence[Prompt]) -> Sequence[Belief]:
        """Return the counts of each prompt, as they are."""
        if isinstance(prompts, PromptTable):
            counts_PW, is_seen_P = self._known.columns(prompts)
            alpha_P, beta_P = counts_PW.T
            return BeliefColumns(alpha_P, beta_P, (alpha_P + beta_P) * is_seen_P, alpha_P * is_seen_P, is_seen_P)
        return [self._belief(prompt.prompt_id) for prompt in prompts]

    def state_dict(self) -> dict[str, Any]:
        """Counts by prompt id, and the last response of each with its log-probabilities."""
        return super().state_dict() | {"last": {prompt_id: each.state() for prompt_id, each in self._last.items()}}

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


@option("curriculum", "weighted_draw")
@dataclass(kw_only=True, eq=False)
class WeightedDraw(Checked, Curriculum):
    """SPO: a draw without replacement from all prompts, with weights ``sqrt(v (1 - v)) / N^gamma + floor``.

    arXiv:2509.13232. v and N are mean and strength of what is believed: beta_history, kl_history, ema, window or
    similar_prompts. There are no candidates and no share in turn: ``floor`` is all that brings prompts back which are
    believed to be solved or hopeless.

    One after the other without replacement in proportion to the weights: the prompts with the largest ``u^(1/w)`` for u
    uniform in (0, 1), which are seeded by step and prompt (Efraimidis and Spirakis 2006).

    Example:
        >>> [round(WeightedDraw().weight(Belief(v, 1 - v)), 5) for v in (1e-12, 0.1, 0.5)]
        [0.05, 0.35, 0.55]
    """

    needs_history = True

    floor: float = 0.05
    """Added to every weight: with 0.05 (the authors') prompts believed to be solved or hopeless come up to 11 times as
    rarely as those believed to be at one half."""
    gamma: float = 0
    """0 to 1: how much less a prompt comes that is known better (paper: a parameter; the authors' code: 0, not at
    all)."""
    unseen_first: bool = False
    """Prompts never seen come before all others. With a sampler that draws more of those the run begins by measuring
    all prompts."""

    def _checks(self) -> Iterator[Check]:
        yield (
            0 < self.floor < math.inf,
            f"curriculum.floor must be positive and finite, or prompts could be lost; got {self.floor}",
        )
        yield 0 <= self.gamma <= 1, f"curriculum.gamma must be in [0, 1]; got {self.gamma}"

    def weight(self, belief: Belief) -> float:
        """Return how readily a prompt is drawn, relative to the others."""
        return float(self._weights(np.array(belief.alpha), np.array(belief.beta)))

    def _weights(self, alpha_P: Floats, beta_P: Floats) -> Floats:
        strength_P = alpha_P + beta_P
        mean_P = alpha_P / strength_P
        spread_P: Floats = np.sqrt(mean_P * (1 - mean_P))
        return (spread_P / strength_P**self.gamma if self.gamma else spread_P) + self.floor

    def _come_first(self, is_seen_P: Flags) -> Flags | None:
        return ~is_seen_P if self.unseen_first else None

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return the step's prompts, shuffled. ``recall`` is asked about all prompts.

        Where there are fewer prompts than that, all of them come as often as that goes, and the rest is drawn.
        """
        generator = random.Random(f"{seed}/weighted/{step}")
        beliefs = BeliefColumns.of(recall(prompts))
        uniform_P = uniform_draws(generator, len(prompts))
        num_whole, num_left = divmod(num_prompts, len(prompts))
        drawn_P = self._drawn(uniform_P, beliefs, len(prompts) if num_whole else num_left)
        drawn = [prompts[position] for position in drawn_P.tolist()]
        chosen = drawn * num_whole + drawn[:num_left]
        generator.shuffle(chosen)
        return chosen

    def _drawn(self, uniform_P: Floats, beliefs: BeliefColumns, count: int) -> NDArray[np.int64]:
        """Return the places with the largest keys. Where weights are bounded, only prompts that can win are weighed."""
        first = self._come_first(beliefs.is_seen_P)
        num_tried = 16 * (count + 32)  # weights differ by up to a factor of 11
        while self.gamma == 0 and first is None and num_tried < len(uniform_P):
            below = num_tried / len(uniform_P)
            tried = np.flatnonzero(uniform_P < below)
            keys_T = self._keys(uniform_P[tried], beliefs.alpha_P[tried], beliefs.beta_P[tried])
            chosen = largest(keys_T, count) if len(tried) >= count else None
            if chosen is not None and keys_T[chosen].min(initial=0.0) > np.log(1.0 - below) / (0.5 + self.floor):
                return tried[chosen]  # no other key is above that bound
            num_tried *= 4
        return largest(self._keys(uniform_P, beliefs.alpha_P, beliefs.beta_P), count, first=first)

    def _keys(self, uniform_P: Floats, alpha_P: Floats, beta_P: Floats) -> Floats:
        """Return the log of u^(1/w): the order is the same, and no key rounds to 1."""
        keys_P: Floats = np.log(1.0 - uniform_P) / self._weights(alpha_P, beta_P)
        return keys_P

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """``weight``: mean of the weights of what was drawn."""
        return {"weight": sum(map(self.weight, beliefs)) / max(len(beliefs), 1)}

    def caveat(self) -> str:
        """What is preferred, and within which bounds."""
        strength = f" / N^{self.gamma:g}" if self.gamma else ""
        return (
            f"curriculum: prompts are drawn with weights sqrt(v (1 - v)){strength} + {self.floor:g} of what is "
            "believed of them, and nothing undoes that: a prompt counts by how often it is drawn"
        )


SPO = known(
    Recipe(
        name="spo",
        card=Card(
            table="prompts",
            changes="one response per prompt; a history that fades as the policy moves is baseline",
            needs="its own history, with the last response of each prompt",
            cost="1 per prompt; two scoring passes; a starting measurement",
            fidelity="faithful to the code",
            departs=(
                "Prompts are drawn from all of them, with weights sqrt(v (1-v)) + 0.05. Advantages are whitened. A "
                "step has 128 prompts, theirs 1024. It begins where the history is (1/2, 1/2) unless a measurement is "
                "given. The starting measurement takes 8 responses per prompt, outside the run. With "
                "`sampler=first_visit selection=seen curriculum.unseen_first=true` the run draws and counts them."
            ),
        ),
        checked=Comparison(
            rule="how counts are forgotten, the weights, and the draw (by enumeration)",
            against="by hand",
            test="unit/methods/estimators/test_kl_history.py::test_counts_are_forgotten_by_how_far_the_policy_moved",
        ),
        text="""
            SPO (arXiv:2509.13232, ICLR 2026) draws one response per prompt. Its baseline is a Beta history that forgets
            by how far the policy has moved. Prompts are drawn from all of them by sqrt(v (1 - v)). Advantages are
            whitened over the step. The clip is 0.2 and 0.28, the dual clip 10, and there are 8 minibatches. The
            authors' step has 1024 prompts and a learning rate of 1e-6. This one has as many responses as the default of
            32 groups of 4. SPO measures the initial policy by 8 responses of every prompt and counts them in no budget:
            that is estimator.history_file, with the file that prepare.py num_samples=8 wrote. With sampler=first_visit
            selection=seen curriculum.unseen_first=true the run draws them itself. It then counts them, and trains when
            every prompt is measured.
        """,
        estimator=KlHistory,
        curriculum=WeightedDraw,
        sampler=use(UniformSampler, group_size=1),
        selection="all",
        advantage="history_whitened",
        loss="dapo",
        settings={"data.prompts_per_step": 128, "data.num_minibatches": 8},
    )
)
