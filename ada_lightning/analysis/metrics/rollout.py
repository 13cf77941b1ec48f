"""Figures of a rollout step, and of its episodes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.functional import spearman_corrcoef
from torchmetrics.utilities import dim_zero_cat

from ada_lightning.core.following import without_hints
from ada_lightning.core.records import Response, ResponseGroup, ResponsePool
from ada_lightning.core.step_records import RolloutResult


class EstimatorCalibration(Metric):
    """Errors and rank correlation of each pool's belief, against its first round, which no rule has biased.

    States add up or are concatenated, so any split over steps and ranks gives the same figures.
    """

    full_state_update = False
    squared_error: Tensor
    num_responses: Tensor
    predicted: list[Tensor]
    observed: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in ("squared_error", "num_responses"):
            self.add_state(name, default=torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        for name in ("predicted", "observed"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Add the pools of a step."""
        for pool in pools:
            first_round = pool.responses[: len(pool.first_round_rewards)]
            if not first_round:
                continue
            outcomes = [float(response.is_positive) for response in first_round]
            mean = pool.belief.mean
            self.squared_error += sum((mean - outcome) ** 2 for outcome in outcomes)
            self.num_responses += len(outcomes)
            self.predicted.append(torch.tensor([mean]))
            self.observed.append(torch.tensor([sum(outcomes) / len(outcomes)]))

    def compute(self) -> dict[str, Tensor]:
        """``estimator/brier`` per response, ``estimator/mae`` per prompt, ``estimator/rank_correlation`` (Spearman).

        The mean absolute error is of expected against observed pass rates; VIP (arXiv:2602.01601) measures predictors
        by it. A few responses per prompt leave an error of their own in it: compare estimators on equal numbers. The
        rank correlation is there where both sides vary.
        """
        figures = {"estimator/brier": self.squared_error / self.num_responses.clamp_min(1)}
        if len(self.predicted):  # a list, or one tensor once states are synchronised
            predicted, observed = dim_zero_cat(self.predicted), dim_zero_cat(self.observed)
            figures["estimator/mae"] = (predicted - observed).abs().mean()
            if predicted.unique().numel() > 1 and observed.unique().numel() > 1:
                figures["estimator/rank_correlation"] = spearman_corrcoef(predicted, observed)
        return figures


EDGES = (0.0, 0.125, 0.25, 0.5, 0.75, 0.875)
"""Lower ends of the bins of a pool's mean."""


def effective_weights(groups: Iterable[ResponseGroup]) -> dict[str, float]:
    """Mean over prompts of ``sum of A / p over positives - sum of A / q over negatives``, by bin of the pool's mean.

    That sum is the factor on grad p that a prompt's kept responses have, as far as the pool's mean shows p: about
    ``f'(p)`` for an estimator of objective f. Only prompts with both classes of which something is kept are counted.

    Args:
        groups: what trains of a rollout, with advantages.

    Returns:
        ``weight/pass_rate_from_<lower end>`` of every bin that has prompts.
    """
    pulls = defaultdict(list)
    for group in groups:
        pool = group.pool
        if group.kept and pool.num_positive and pool.num_negative and not pool.hint:
            rate = pool.num_positive / pool.num_sampled
            pulls[EDGES[bisect_right(EDGES, rate) - 1]].append(
                sum(
                    (kept.advantage or 0.0) / (rate if kept.response.is_positive else rate - 1.0) for kept in group.kept
                )
            )
    return {f"weight/pass_rate_from_{edge:g}": fmean(values) for edge, values in sorted(pulls.items())}


_USUAL_FAILURES = ("timeout", "crash", "memory")
ENDS = ("done", "length", "turns", "context", "failed")
"""Reasons for which an episode ends, see :class:`~ada_lightning.core.episode.Episode`."""


class RolloutMetrics:
    """Signal, reward and budget of rollouts.

    ``rollout/reward_first_round`` is the curve to watch: the mean over first-round responses only, which no stopping
    rule has biased. ``rollout/reward_pool`` is the mean over all responses (the paper's batch-level reward), lower
    where hard prompts get more samples; ``rollout/reward_prompt`` the mean over prompts of their pools' means, of those
    that have a graded response.
    ``rollout/prompts_not_sampled`` counts those to which a sampler gave no response.

    ``rollout/signal_ratio`` is the share of a step's prompts whose responses are told apart
    (:attr:`~ada_lightning.core.records.ResponseGroup.has_signal`). Where a step is filled up, that is of all that were
    drawn for it, the surplus included: how rare a signal is, not how many groups were needed. What trains is in
    ``rollout/num_trained``.

    ``reward/<name>`` is the mean of a component over the pools' responses that have it. ``grader/<reason>`` counts
    failed grades, ``grader/cache_hits`` grades that were known before. Of ``rollout/grader_failures`` those counted in
    ``rollout/grader_failures_excluded`` are left out, the others are worth 0.

    Where responses are episodes, ``env/...`` says how they went (:mod:`ada_lightning.analysis.metrics.rollout`).

    Groups with a hint are in none of the figures about prompts and rewards; the counts of responses and tokens, which
    say what a step cost, have theirs: ``hints/...`` tells them apart.

    Called with a step's result it returns ratios in [0, 1], means and counts by name; a reason for which graders
    failed in an earlier step is there as 0.
    """

    def __init__(self) -> None:
        self._reasons = set(_USUAL_FAILURES)

    def __call__(self, result: RolloutResult) -> dict[str, float]:
        """Return the figures of one rollout step."""
        sums, components, num_with_component = (defaultdict[str, float](float) for _ in range(3))
        for group in without_hints(result.groups):
            for name, value in _sums_of(group).items():
                sums[name] += value
            for response in group.pool.responses:
                for name, value in response.components.items():
                    components[name] += value
                    num_with_component[name] += 1
        stats = result.stats
        self._reasons |= stats.failures.keys()
        prompts, drawn = max(sums["prompts"], 1), max(stats.num_drawn, 1)
        whole = max(stats.num_drawn - stats.num_limited, 1)  # of any length
        figures = {
            "rollout/reward_first_round": sums["first_round_reward"] / max(sums["first_round_size"], 1),
            "rollout/reward_pool": sums["reward"] / max(sums["sampled"], 1),
            "rollout/reward_prompt": sums["reward_of_prompts"] / max(sums["rewarded"], 1),
            "rollout/unresolved_ratio": sums["unresolved"] / prompts,
            "rollout/signal_ratio": sums["signal"] / prompts,
            "rollout/signal_ratio_first_round": sums["first_round_signal"] / prompts,
            "rollout/all_correct_ratio": sums["all_correct"] / prompts,
            "rollout/all_wrong_ratio": sums["all_wrong"] / prompts,
            "rollout/num_sampled": stats.num_drawn,
            "rollout/prompts_not_sampled": sums["not_sampled"],
            "rollout/num_kept": sums["kept"],
            "rollout/num_trained": sums["trained"],
            "rollout/rounds_per_prompt": sums["rounds"] / prompts,
            "rollout/generated_tokens": stats.generated_tokens,
            "rollout/tokens_kept": sums["kept_tokens"],
            "rollout/tokens_wasted": stats.wasted_tokens,
            "rollout/response_tokens": (stats.generated_tokens - stats.written_tokens) / drawn,
            "rollout/truncated_ratio": stats.num_truncated / whole,
            **({"rollout/cut_ratio": stats.num_cut / drawn} if stats.num_cut else {}),
            "rollout/empty_ratio": stats.num_empty / drawn,
            "rollout/grader_failures": stats.num_failed,
            "rollout/grader_failures_excluded": stats.num_failed_excluded,
            "rollout/skipped_prompts": stats.num_skipped_prompts,
            "grader/cache_hits": stats.num_cache_hits,
            **{f"grader/{_metric_name(reason)}": stats.failures.get(reason, 0) for reason in sorted(self._reasons)},
            **{
                f"reward/{_metric_name(name)}": components[name] / number for name, number in num_with_component.items()
            },
        }
        return {name: float(value) for name, value in figures.items()} | episode_figures(result.groups)


def _sums_of(group: ResponseGroup) -> dict[str, float]:
    """What a prompt adds to the sums of its step."""
    pool, rewards = group.pool, group.pool.first_round_rewards
    total_reward = sum(response.reward for response in pool.responses)
    return {
        "prompts": 1,
        "not_sampled": pool.num_drawn == 0,
        "signal": group.has_signal,
        "all_correct": pool.num_sampled > 0 and pool.num_negative == 0,
        "all_wrong": pool.num_sampled > 0 and pool.num_positive == 0,
        "first_round_signal": len(set(rewards)) > 1,
        "first_round_reward": sum(rewards),
        "first_round_size": len(rewards),
        "reward": total_reward,
        "reward_of_prompts": total_reward / max(pool.num_sampled, 1),
        "rewarded": pool.num_sampled > 0,
        "unresolved": not pool.is_resolved,
        "sampled": pool.num_sampled,
        "rounds": 1 + max((response.round_index for response in pool.responses), default=-1),
        "kept": len(group.kept),
        "kept_tokens": sum(kept.response.num_tokens for kept in group.kept),
        "trained": len(group.trained),
    }


def _metric_name(name: str) -> str:
    """Replace what MLflow refuses in the name of a metric, such as ``@``."""
    return re.sub(r"[^\w\-. /]", "_", name)


def episode_figures(groups: Sequence[ResponseGroup]) -> dict[str, float]:
    """Return what to log of a step's episodes by name; nothing where its responses are single turns.

    Args:
        groups: of the step; the responses that count are looked at. Of an episode whose environment failed that is one
            that is worth 0; what is no evidence is counted in ``grader/environment_<reason>``.

    Returns:
        ``env/turns`` and ``env/turns_p90`` of the model in an episode; ``env/turns_gap``: those of positives minus
        those of negatives, where there are both. ``env/calls`` of tools in an episode; ``env/call_errors``: share of
        them that could not be carried out. ``env/seconds``, ``_p90`` and ``_max`` of an answer. Shares
        ``env/ended_<reason>`` of episodes. ``env/forwarded_tokens``: all that follow the prompts, and the share
        ``env/environment_tokens`` of them that the model did not draw. ``env/pass_rate_<n>_turns``: by number of turns.
    """
    pairs = [
        (response, response.episode)
        for group in groups
        for response in group.pool.responses
        if response.episode is not None
    ]
    if not pairs:
        return {}
    episodes = [episode for _, episode in pairs]
    turns = [turn for episode in episodes for turn in episode.turns]
    numbers, seconds = [len(episode.turns) for episode in episodes], [turn.seconds for turn in turns]
    num_calls = sum(turn.num_calls for turn in turns)
    num_forwarded = sum(len(episode.is_sampled) for episode in episodes)
    ends = Counter(episode.ended_by for episode in episodes)
    figures: dict[str, float] = {
        "env/turns": fmean(numbers),
        "env/turns_p90": float(np.quantile(numbers, 0.9)),
        "env/calls": num_calls / len(episodes),
        "env/call_errors": sum(turn.num_call_errors for turn in turns) / max(num_calls, 1),
        "env/seconds": fmean(seconds),
        "env/seconds_p90": float(np.quantile(seconds, 0.9)),
        "env/seconds_max": max(seconds),
        "env/forwarded_tokens": float(num_forwarded),
        "env/environment_tokens": 1.0 - sum(episode.num_sampled for episode in episodes) / max(num_forwarded, 1),
        **{f"env/ended_{reason}": ends[reason] / len(episodes) for reason in ENDS},
    }
    return figures | _by_outcome([response for response, _ in pairs], numbers)


def _by_outcome(responses: Sequence[Response], numbers: Sequence[int]) -> dict[str, float]:
    right, wrong = (
        [number for response, number in zip(responses, numbers, strict=True) if response.is_positive is is_positive]
        for is_positive in (True, False)
    )
    gap = {"env/turns_gap": fmean(right) - fmean(wrong)} if right and wrong else {}
    counts, positives = Counter(numbers), Counter(right)
    return gap | {f"env/pass_rate_{number}_turns": positives[number] / counts[number] for number in sorted(counts)}
