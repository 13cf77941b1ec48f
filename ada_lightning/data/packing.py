"""From response groups to the microbatches of one or several optimiser steps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ada_lightning.batch import BatchCounts, Microbatch, TrainingBatch
from ada_lightning.types import KeptResponse, ResponseGroup


@dataclass(frozen=True, slots=True)
class _Row:
    """One kept response with the group it came from."""

    group: ResponseGroup
    kept: KeptResponse

    @property
    def num_tokens(self) -> int:
        return len(self.group.pool.prompt.prompt_ids) + len(self.kept.response.response_ids)


def pack_groups(
    groups: Sequence[ResponseGroup],
    *,
    num_minibatches: int,
    max_tokens_per_microbatch: int,
    policy_version: int,
    shuffle_seed: int,
    keep_groups_without_signal: bool,
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
            _Row(group, kept)
            for group in order[index::num_minibatches]
            if keep_groups_without_signal or group.has_signal
            for kept in group.kept
            if kept.response.response_ids
        ]
        batches.append(
            TrainingBatch(
                microbatches=tuple(map(_microbatch, _split_by_tokens(rows, max_tokens_per_microbatch))),
                counts=counts,
                policy_version=policy_version,
                minibatch_index=index,
                has_old_logprobs=False,
            )
        )
    return batches


def group_microbatch(group: ResponseGroup) -> Microbatch:
    """Pack one group alone, its kept responses in order: for tables and tests that want per-response figures.

    Raises:
        ValueError: the group keeps nothing.
    """
    if not group.kept:
        raise ValueError(f"the group of prompt {group.pool.prompt.prompt_id} keeps no response")
    return _microbatch([_Row(group, kept) for kept in group.kept])


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
    input_ids_BT = torch.zeros(shape, dtype=torch.int64)
    loss_mask_BT = torch.zeros(shape, dtype=torch.bool)
    sampling_logprobs_BT = torch.zeros(shape, dtype=torch.float32)
    for index, row in enumerate(rows):
        prompt_ids, response = row.group.pool.prompt.prompt_ids, row.kept.response
        tokens = torch.tensor((*prompt_ids, *response.response_ids))
        input_ids_BT[index, : len(tokens)] = tokens
        loss_mask_BT[index, len(prompt_ids) : len(tokens)] = True
        sampling_logprobs_BT[index, len(prompt_ids) : len(tokens)] = torch.tensor(response.sampling_logprobs)

    def column(values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32)

    pools = [row.group.pool for row in rows]
    group_rewards = [[kept.response.reward for kept in row.group.kept] for row in rows]
    return Microbatch(
        input_ids_BT=input_ids_BT,
        loss_mask_BT=loss_mask_BT,
        sampling_logprobs_BT=sampling_logprobs_BT,
        old_logprobs_BT=torch.zeros(shape, dtype=torch.float32),
        rewards_B=column([row.kept.response.reward for row in rows]),
        is_positive_B=torch.tensor([row.kept.response.is_positive for row in rows]),
        num_positive_B=column([pool.num_positive for pool in pools]),
        num_sampled_B=column([pool.num_sampled for pool in pools]),
        pool_reward_sum_B=column([sum(r.reward for r in pool.responses) for pool in pools]),
        pool_reward_square_sum_B=column([sum(r.reward**2 for r in pool.responses) for pool in pools]),
        first_round_reward_sum_B=column([sum(pool.first_round_rewards) for pool in pools]),
        first_round_size_B=column([len(pool.first_round_rewards) for pool in pools]),
        group_size_B=column([len(rewards) for rewards in group_rewards]),
        group_reward_sum_B=column([sum(rewards) for rewards in group_rewards]),
        group_reward_square_sum_B=column([sum(r**2 for r in rewards) for rewards in group_rewards]),
        selection_weight_B=column([row.kept.selection_weight for row in rows]),
    )
