"""Figures of a rollout step, from sums and counts that add up over steps and ranks."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from ada_lightning.core.result import RolloutResult

_SUMS = (
    "prompts",
    "not_sampled",
    "signal",
    "all_correct",
    "all_wrong",
    "first_round_signal",
    "first_round_reward",
    "first_round_size",
    "reward",
    "reward_of_prompts",
    "rewarded",
    "unresolved",
    "sampled",
    "drawn",
    "rounds",
    "kept",
    "trained",
    "tokens",
    "kept_tokens",
    "wasted",
    "truncated",
    "empty",
    "failed",
    "failed_excluded",
    "skipped",
    "cache_hits",
)
_USUAL_FAILURES = ("timeout", "crash", "memory")


class RolloutMetrics(Metric):
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
    """

    full_state_update = False
    higher_is_better = None
    prompts: Tensor
    not_sampled: Tensor
    signal: Tensor
    all_correct: Tensor
    all_wrong: Tensor
    first_round_signal: Tensor
    first_round_reward: Tensor
    first_round_size: Tensor
    reward: Tensor
    reward_of_prompts: Tensor
    rewarded: Tensor
    unresolved: Tensor
    sampled: Tensor
    drawn: Tensor
    rounds: Tensor
    kept: Tensor
    trained: Tensor
    tokens: Tensor
    kept_tokens: Tensor
    wasted: Tensor
    truncated: Tensor
    empty: Tensor
    failed: Tensor
    failed_excluded: Tensor
    skipped: Tensor
    cache_hits: Tensor
    by_name: list[Tensor] | Tensor
    """Bytes of JSON lines, each ``[failures by reason, sums by component, counts by component]``: which names there are
    turns out on the way and differs between ranks, and lines put end to end add up all the same."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in _SUMS:
            self.add_state(name, default=torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("by_name", default=[], dist_reduce_fx="cat")
        self._reasons = set(_USUAL_FAILURES)

    def update(self, result: RolloutResult) -> None:
        """Add one rollout step."""
        stats = result.stats
        for group in result.groups:
            pool = group.pool
            rewards = pool.first_round_rewards
            self.prompts += 1
            self.not_sampled += pool.num_drawn == 0
            self.signal += group.has_signal
            self.all_correct += pool.num_sampled > 0 and pool.num_negative == 0
            self.all_wrong += pool.num_sampled > 0 and pool.num_positive == 0
            self.first_round_signal += len(set(rewards)) > 1
            self.first_round_reward += sum(rewards)
            self.first_round_size += len(rewards)
            total_reward = sum(response.reward for response in pool.responses)
            self.reward += total_reward
            self.reward_of_prompts += total_reward / max(pool.num_sampled, 1)
            self.rewarded += pool.num_sampled > 0
            self.unresolved += not pool.is_resolved
            self.sampled += pool.num_sampled
            self.rounds += 1 + max((response.round_index for response in pool.responses), default=-1)
            self.kept += len(group.kept)
            self.kept_tokens += sum(len(kept.response.response_ids) for kept in group.kept)
            self.trained += len(group.trained)
        self.drawn += stats.num_drawn
        self.tokens += stats.generated_tokens
        self.wasted += stats.wasted_tokens
        self.truncated += stats.num_truncated
        self.empty += stats.num_empty
        self.failed += stats.num_failed
        self.failed_excluded += stats.num_failed_excluded
        self.skipped += stats.num_skipped_prompts
        self.cache_hits += stats.num_cache_hits
        self._add_by_name(result)

    def _add_by_name(self, result: RolloutResult) -> None:
        sums, counts = defaultdict[str, float](float), Counter[str]()
        for group in result.groups:
            for response in group.pool.responses:
                for name, value in response.components.items():
                    sums[name] += value
                    counts[name] += 1
        line = json.dumps([result.stats.failures, sums, counts]) + "\n"
        assert isinstance(self.by_name, list)  # a tensor only while ranks are synchronised
        self.by_name.append(torch.frombuffer(bytearray(line.encode()), dtype=torch.uint8).to(self.device))

    def compute(self) -> dict[str, Tensor]:
        """Return ratios in [0, 1], means and counts, keyed ``rollout/name``."""
        prompts, drawn = self.prompts.clamp_min(1), self.drawn.clamp_min(1)
        return {
            "rollout/reward_first_round": self.first_round_reward / self.first_round_size.clamp_min(1),
            "rollout/reward_pool": self.reward / self.sampled.clamp_min(1),
            "rollout/reward_prompt": self.reward_of_prompts / self.rewarded.clamp_min(1),
            "rollout/unresolved_ratio": self.unresolved / prompts,
            "rollout/signal_ratio": self.signal / prompts,
            "rollout/signal_ratio_first_round": self.first_round_signal / prompts,
            "rollout/all_correct_ratio": self.all_correct / prompts,
            "rollout/all_wrong_ratio": self.all_wrong / prompts,
            "rollout/num_sampled": self.drawn,
            "rollout/prompts_not_sampled": self.not_sampled,
            "rollout/num_kept": self.kept,
            "rollout/num_trained": self.trained,
            "rollout/rounds_per_prompt": self.rounds / prompts,
            "rollout/generated_tokens": self.tokens,
            "rollout/tokens_kept": self.kept_tokens,
            "rollout/tokens_wasted": self.wasted,
            "rollout/response_tokens": self.tokens / drawn,
            "rollout/truncated_ratio": self.truncated / drawn,
            "rollout/empty_ratio": self.empty / drawn,
            "rollout/grader_failures": self.failed,
            "rollout/grader_failures_excluded": self.failed_excluded,
            "rollout/skipped_prompts": self.skipped,
            "grader/cache_hits": self.cache_hits,
            **self._compute_by_name(),
        }

    def _compute_by_name(self) -> dict[str, Tensor]:
        """Failures by reason, 0 for those of earlier steps; means of components."""
        parts = [self.by_name] if isinstance(self.by_name, Tensor) else self.by_name
        failures, sums, counts = (defaultdict[str, float](float) for _ in range(3))
        for line in b"".join(bytes(part.cpu().to(torch.uint8).tolist()) for part in parts).splitlines():
            for total, added in zip((failures, sums, counts), json.loads(line), strict=True):
                for name, value in added.items():
                    total[name] += value
        self._reasons |= failures.keys()
        figures = {f"grader/{_metric_name(reason)}": failures[reason] for reason in sorted(self._reasons)}
        figures |= {f"reward/{_metric_name(name)}": sums[name] / counts[name] for name in counts}
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in figures.items()}


def _metric_name(name: str) -> str:
    """Replace what MLflow refuses in the name of a metric, such as ``@``."""
    return re.sub(r"[^\w\-. /]", "_", name)
