"""From response groups to the microbatches of one or several optimiser steps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ada_lightning.batch import BatchCounts, Microbatch, TrainingBatch
from ada_lightning.stopping.rule import StoppingRule
from ada_lightning.types import KeptResponse, ResponseGroup


@dataclass(frozen=True, slots=True)
class _Row:
    """A prompt and those of its kept responses that are computed with it."""

    group: ResponseGroup
    kept: tuple[KeptResponse, ...]

    @property
    def num_tokens(self) -> int:
        return len(self.group.pool.prompt.prompt_ids) + sum(map(_num_response_tokens, self.kept))


def pack_groups(
    groups: Sequence[ResponseGroup],
    *,
    num_minibatches: int,
    max_tokens_per_microbatch: int,
    policy_version: int,
    shuffle_seed: int,
    keep_groups_without_signal: bool,
    share_prompts: bool,
) -> list[TrainingBatch]:
    """Cut a rollout into optimiser steps of whole groups, each cut into microbatches by token budget.

    Groups are shuffled before they are cut: the official code does not, so its first minibatch holds the easy prompts
    and its last the unresolved ones. Rows of similar length share a microbatch, so little is padding.

    Args:
        groups: of one rollout step.
        num_minibatches: optimiser steps to make of them.
        max_tokens_per_microbatch: tokens computed at once, padding included; a longer single response stands alone.
        policy_version: of the weights that sampled the groups.
        shuffle_seed: of the order of groups.
        keep_groups_without_signal: also compute responses whose advantage is zero. Needed by terms that do not depend
            on the advantage (KL, entropy); otherwise they change nothing and are left out.
        share_prompts: compute a prompt once for all its responses, which attend to it but not to each other.

    Returns:
        ``num_minibatches`` batches; one may hold no microbatch where no group has a signal.

    Raises:
        ValueError: fewer groups than minibatches.
    """
    if len(groups) < num_minibatches:
        raise ValueError(f"{len(groups)} prompts cannot make {num_minibatches} minibatches; lower data.num_minibatches")
    counts = BatchCounts(
        num_prompts=len(groups) / num_minibatches,
        num_responses=sum(len(group.kept) for group in groups) / num_minibatches,
        num_response_tokens=sum(len(kept.response.response_ids) for group in groups for kept in group.kept)
        / num_minibatches,
    )
    order = list(groups)
    random.Random(shuffle_seed).shuffle(order)
    batches = []
    for index in range(num_minibatches):
        rows = [
            row
            for group in order[index::num_minibatches]
            if keep_groups_without_signal or group.has_signal
            for row in _rows(group, max_tokens_per_microbatch if share_prompts else 0)
        ]
        batches.append(
            TrainingBatch(
                microbatches=tuple(map(_microbatch, _split_by_tokens(rows, max_tokens_per_microbatch))),
                counts=counts,
                policy_version=policy_version,
                minibatch_index=index,
                updates_since_rollout=index,
                has_old_logprobs=False,
            )
        )
    return batches


def group_microbatch(*groups: ResponseGroup) -> Microbatch:
    """Pack whole groups, one row each, responses in order: for tables and tests that want per-response figures.

    Raises:
        ValueError: a group keeps nothing.
    """
    for group in groups:
        if not group.kept:
            raise ValueError(f"the group of prompt {group.pool.prompt.prompt_id} keeps no response")
    return _microbatch([_Row(group, group.kept) for group in groups])


def _num_response_tokens(kept: KeptResponse) -> int:
    return len(kept.response.response_ids)


def _rows(group: ResponseGroup, max_tokens: int) -> list[_Row]:
    """Put as many of the group's responses in a row as fit, at least one. Empty responses have nothing to train."""
    rows: list[_Row] = []
    for kept in group.kept:
        if not kept.response.response_ids:
            continue
        if rows and rows[-1].num_tokens + _num_response_tokens(kept) <= max_tokens:
            rows[-1] = _Row(group, (*rows[-1].kept, kept))
        else:
            rows.append(_Row(group, (kept,)))
    return rows


def _split_by_tokens(rows: Sequence[_Row], max_tokens: int) -> list[list[_Row]]:
    """Longest first, so that the largest microbatch, which sets the peak of memory, comes first."""
    microbatches: list[list[_Row]] = []
    width = 0
    for row in sorted(rows, key=lambda row: row.num_tokens, reverse=True):
        if not microbatches or (len(microbatches[-1]) + 1) * width > max_tokens:
            microbatches.append([])
            width = row.num_tokens
        microbatches[-1].append(row)
    return microbatches


def _microbatch(rows: Sequence[_Row]) -> Microbatch:
    shape = len(rows), max(row.num_tokens for row in rows)
    input_ids_RT = torch.zeros(shape, dtype=torch.int64)
    position_ids_RT = torch.zeros(shape, dtype=torch.int64)
    segment_RT = torch.full(shape, -1, dtype=torch.int64)
    predictors: list[int] = []
    for index, row in enumerate(rows):
        prompt_ids = row.group.pool.prompt.prompt_ids
        row_start, end = index * shape[1], len(prompt_ids)
        input_ids_RT[index, :end] = torch.tensor(prompt_ids)
        position_ids_RT[index, :end] = torch.arange(end)
        segment_RT[index, :end] = 0
        for segment, kept in enumerate(row.kept, start=1):
            start, end = end, end + _num_response_tokens(kept)
            input_ids_RT[index, start:end] = torch.tensor(kept.response.response_ids, dtype=torch.int64)
            position_ids_RT[index, start:end] = torch.arange(end - start) + len(prompt_ids)
            segment_RT[index, start:end] = segment
            # The prompt's last token predicts the first of every response.
            predictors += [row_start + len(prompt_ids) - 1, *range(row_start + start, row_start + end - 1)][
                : end - start
            ]
    responses = [(row.group, kept) for row in rows for kept in row.kept]
    lengths = torch.tensor([_num_response_tokens(kept) for _, kept in responses])
    num_response_tokens = int(lengths.sum())
    return Microbatch(
        input_ids_RT=input_ids_RT,
        position_ids_RT=position_ids_RT,
        segment_RT=segment_RT,
        predictor_K=torch.tensor(predictors, dtype=torch.int64),
        token_ids_K=torch.tensor([t for _, kept in responses for t in kept.response.response_ids], dtype=torch.int64),
        response_K=torch.arange(len(responses)).repeat_interleave(lengths),
        sampling_logprobs_K=_column([x for _, kept in responses for x in kept.response.sampling_logprobs]),
        old_logprobs_K=torch.zeros(num_response_tokens),
        num_tokens_B=lengths.to(torch.float32),
        **_statistics(responses),
        **_rules([group.pool.rule for group, _ in responses]),
    )


def _statistics(responses: Sequence[tuple[ResponseGroup, KeptResponse]]) -> dict[str, Any]:
    """What travels with every response, by field name. Shapes ``(B,)``."""
    pools = [group.pool for group, _ in responses]
    group_rewards = [[kept.response.reward for kept in group.kept] for group, _ in responses]
    return {
        "rewards_B": _column([kept.response.reward for _, kept in responses]),
        "is_positive_B": torch.tensor([kept.response.is_positive for _, kept in responses]),
        "num_positive_B": _column([pool.num_positive for pool in pools]),
        "num_sampled_B": _column([pool.num_sampled for pool in pools]),
        "pool_reward_sum_B": _column([sum(r.reward for r in pool.responses) for pool in pools]),
        "pool_squared_deviation_B": _column([_squared_deviation([r.reward for r in p.responses]) for p in pools]),
        "first_round_reward_sum_B": _column([sum(pool.first_round_rewards) for pool in pools]),
        "first_round_size_B": _column([len(pool.first_round_rewards) for pool in pools]),
        "group_size_B": _column([len(rewards) for rewards in group_rewards]),
        "group_reward_sum_B": _column([sum(rewards) for rewards in group_rewards]),
        "group_squared_deviation_B": _column([_squared_deviation(rewards) for rewards in group_rewards]),
        "selection_weight_B": _column([kept.selection_weight for _, kept in responses]),
        "prior_alpha_B": _column([pool.belief.alpha for pool in pools]),
        "prior_beta_B": _column([pool.belief.beta for pool in pools]),
    }


def _rules(rules: Sequence[StoppingRule | None]) -> dict[str, Any]:
    """Each distinct rule once, and which one is whose."""
    index = {rule: position for position, rule in enumerate(dict.fromkeys(rule for rule in rules if rule is not None))}
    return {
        "rule_B": torch.tensor([-1 if rule is None else index[rule] for rule in rules], dtype=torch.int64),
        "rules": tuple(index),
    }


def _squared_deviation(rewards: Sequence[float]) -> float:
    mean = sum(rewards) / len(rewards) if rewards else 0.0
    return sum((reward - mean) ** 2 for reward in rewards)


def _column(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)
