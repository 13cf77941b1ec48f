"""From response groups to the microbatches of one or several optimiser steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

import torch

from ada_lightning.core.following import share_of_prompts
from ada_lightning.core.records import KeptResponse, Prompt, ResponseGroup, ResponsePool
from ada_lightning.training.batch import BatchCounts, Microbatch, TrainingBatch
from ada_lightning.training.seeded_tensors import response_identity


@dataclass(frozen=True, slots=True)
class _Document:
    """A prompt and those of its kept responses that are computed with it."""

    group: ResponseGroup
    kept: tuple[KeptResponse, ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of the prompt, then of each response; an environment's are computed too."""
        return len(self.group.pool.prompt.prompt_ids), *map(_num_computed_tokens, self.kept)

    @property
    def num_tokens(self) -> int:
        return sum(self.lengths)


def pack_groups(groups: Sequence[ResponseGroup], **options: Any) -> list[TrainingBatch]:
    """Cut a rollout as :func:`pack_for_replicas` does, with its ``options``, where all is computed in one place."""
    (batches,) = pack_for_replicas(groups, num_replicas=1, **options)
    return batches


def pack_for_replicas(
    groups: Sequence[ResponseGroup],
    *,
    num_replicas: int,
    num_minibatches: int,
    max_tokens_per_microbatch: int,
    policy_version: int,
    shuffle_seed: int,
    keep_groups_without_signal: bool,
    share_prompts: bool,
    is_computed: Callable[[ResponseGroup], bool] = lambda group: False,
) -> list[list[TrainingBatch]]:
    """Cut a rollout into optimiser steps of whole groups, each into microbatches by token budget, for every replica.

    Groups are shuffled before they are cut: the official code does not, so its first minibatch holds the easy prompts
    and its last the unresolved ones. A minibatch is computed in as few microbatches as its tokens allow, of about the
    same number of tokens each.

    Every replica of the model gets the same number of microbatches, and those that are computed at the same time have
    about the same number of tokens: sharded weights are gathered for all at once. Where there are too few documents a
    replica computes a filler, a response that another one trains on and that counts nothing here.

    Args:
        groups: of one rollout step.
        num_replicas: parts that compute at the same time.
        num_minibatches: optimiser steps to make of them.
        max_tokens_per_microbatch: tokens computed at once; a single response that is longer stands alone.
        policy_version: of the weights that sampled the groups.
        shuffle_seed: of the order of groups.
        keep_groups_without_signal: also compute responses whose advantage is zero. Needed by terms that do not depend
            on the advantage (KL, entropy); otherwise they change nothing and are left out.
        share_prompts: compute a prompt once for all its responses, which attend to it but not to each other.
        is_computed: whether the gradient of a group is there already, so that it is counted alone.

    Returns:
        For every replica ``num_minibatches`` batches. One holds no microbatch where none of its groups has a signal, or
        where there are fewer groups than minibatches. Counts are those of the whole rollout, times the share of its
        groups without a hint, divided among the minibatches that have a group.
    """
    num_filled = max(min(num_minibatches, len(groups)), 1)
    share = share_of_prompts(groups) / num_filled
    counts = BatchCounts(
        num_prompts=len(groups) * share,
        num_responses=sum(len(group.kept) for group in groups) * share,
        num_response_tokens=sum(_num_trained_tokens(kept) for group in groups for kept in group.kept) * share,
    )
    order = list(groups)
    random.Random(shuffle_seed).shuffle(order)
    replicas: list[list[TrainingBatch]] = [[] for _ in range(num_replicas)]
    for index in range(num_minibatches):
        computed = [
            _with_tokens(group, group.kept if keep_groups_without_signal else group.trained)
            for group in order[index::num_minibatches]
            if not is_computed(group)
        ]
        documents = _divide(computed, max_tokens_per_microbatch if share_prompts else 0, num_replicas)
        rounds = _balance(documents, max_tokens_per_microbatch, num_replicas)
        for replica, batches in enumerate(replicas):
            batches.append(
                TrainingBatch(
                    microbatches=tuple(_microbatch_or_filler(parts[replica], documents) for parts in rounds),
                    counts=counts,
                    policy_version=policy_version,
                    update_index=index,
                    updates_since_rollout=index,
                    has_old_logprobs=False,
                )
            )
    return replicas


def group_microbatch(*groups: ResponseGroup) -> Microbatch:
    """Pack whole groups, one document each, responses in order: for tables and tests that want per-response figures.

    Raises:
        ValueError: a group keeps nothing.
    """
    if empty := next((group for group in groups if not group.kept), None):
        raise ValueError(f"the group of prompt {empty.pool.prompt.prompt_id} keeps no response")
    return _microbatch([_Document(group, group.kept) for group in groups])


def group_microbatches(group: ResponseGroup, *, max_tokens: int) -> list[Microbatch]:
    """Pack a group's responses in order, as many at once behind their prompt as ``max_tokens`` hold, at least one."""
    return [_microbatch([document]) for document in _split(_Document(group, group.kept), max_tokens)]


def prompt_microbatches(
    prompts: Sequence[tuple[int, ...]], *, max_tokens: int
) -> Iterator[tuple[list[int], Microbatch]]:
    """Pack prompts alone, as many at once as ``max_tokens`` hold, at least one; like lengths stand together.

    Yields:
        Which of the prompts, by index, and their tokens, one document each.
    """
    chosen: list[int] = []
    for index in sorted(range(len(prompts)), key=lambda index: len(prompts[index])):
        if chosen and sum(len(prompts[other]) for other in chosen) + len(prompts[index]) > max_tokens:
            yield chosen, _prompts_alone([prompts[other] for other in chosen])
            chosen = []
        chosen.append(index)
    if chosen:
        yield chosen, _prompts_alone([prompts[other] for other in chosen])


def _prompts_alone(prompts: Sequence[tuple[int, ...]]) -> Microbatch:
    pools = [ResponsePool(Prompt("", (), prompt_ids=ids), slot=0) for ids in prompts]
    return _microbatch([_Document(ResponseGroup(pool, ()), ()) for pool in pools])


def _num_computed_tokens(kept: KeptResponse) -> int:
    return len(kept.response.response_ids)


def _num_trained_tokens(kept: KeptResponse) -> int:
    return kept.response.num_tokens


def _with_tokens(group: ResponseGroup, kept: Sequence[KeptResponse]) -> _Document:
    """What of a group passes through the policy. Empty responses have nothing to train."""
    return _Document(group, tuple(filter(_num_trained_tokens, kept)))


def _split(whole: _Document, max_tokens: int) -> list[_Document]:
    """Put as many of a group's responses in a document as fit, at least one."""
    documents: list[_Document] = []
    for kept in whole.kept:
        if documents and documents[-1].num_tokens + _num_computed_tokens(kept) <= max_tokens:
            documents[-1] = _Document(whole.group, (*documents[-1].kept, kept))
        else:
            documents.append(_Document(whole.group, (kept,)))
    return documents


def _divide(groups: Sequence[_Document], max_tokens: int, num_replicas: int) -> list[_Document]:
    """Make documents. Several replicas get none larger than a fair share, so that a large group holds nobody up."""
    documents = [document for group in groups for document in _split(group, max_tokens)]
    if num_replicas == 1:
        return documents
    fair_share = -(-_num_tokens(documents) // num_replicas)
    return [document for group in groups for document in _split(group, min(max_tokens, fair_share))]


def _balance(documents: Sequence[_Document], max_tokens: int, num_replicas: int) -> list[list[list[_Document]]]:
    """Share documents out to the fewest microbatches that a simple rule finds, of nearly equal numbers of tokens.

    The rule (longest processing time first, Graham 1969) gives each document, longest first, to the microbatch that has
    least. Where that breaks the budget it is tried again with more microbatches. The largest ones come first: they set
    the peak of memory, so what does not fit fails at once. Inside one, documents go from long to short.

    Returns:
        Rounds of one microbatch for each replica, in turn from both ends, so that no replica always gets the largest.
        Where documents are fewer, some are empty.
    """
    by_length = sorted(documents, key=lambda document: document.num_tokens, reverse=True)
    alone = [[document] for document in by_length if document.num_tokens > max_tokens]
    rest = by_length[len(alone) :]
    num_wanted = len(alone) + -(-_num_tokens(rest) // max_tokens)
    num_parts = -(-num_wanted // num_replicas) * num_replicas - len(alone)
    parts = _share_out(rest, num_parts)
    while any(_num_tokens(part) > max_tokens for part in parts):
        num_parts += num_replicas
        parts = _share_out(rest, num_parts)
    ordered = alone + sorted(parts, key=_num_tokens, reverse=True)
    rounds = [ordered[first : first + num_replicas] for first in range(0, len(ordered), num_replicas)]
    return [parts if index % 2 == 0 else parts[::-1] for index, parts in enumerate(rounds)]


def _microbatch_or_filler(part: Sequence[_Document], documents: Sequence[_Document]) -> Microbatch:
    if part:
        return _microbatch(part)
    shortest = min(documents, key=lambda document: document.num_tokens)
    return replace(_microbatch([replace(shortest, kept=shortest.kept[:1])]), is_filler=True)


def _share_out(documents: Sequence[_Document], num_parts: int) -> list[list[_Document]]:
    parts: list[list[_Document]] = [[] for _ in range(num_parts)]
    heap = [(0, index) for index in range(num_parts)]
    for document in documents:
        num_tokens, index = heappop(heap)
        parts[index].append(document)
        heappush(heap, (num_tokens + document.num_tokens, index))
    return parts


def _num_tokens(documents: Sequence[_Document]) -> int:
    return sum(document.num_tokens for document in documents)


def _microbatch(documents: Sequence[_Document]) -> Microbatch:
    input_ids: list[int] = []
    position_ids: list[int] = []
    predictors: list[int] = []
    for document in documents:
        prompt_ids = document.group.pool.prompt.prompt_ids
        input_ids += prompt_ids
        position_ids += range(len(prompt_ids))
        last_of_prompt = len(input_ids) - 1
        for kept in document.kept:
            start, length = len(input_ids), _num_computed_tokens(kept)
            input_ids += kept.response.response_ids
            position_ids += range(len(prompt_ids), len(prompt_ids) + length)
            # The prompt's last token predicts the first of every response.
            of_response = [last_of_prompt, *range(start, start + length - 1)][:length]
            # Of an episode, only what the model drew trains; that may be predicted by a token of the environment.
            episode = kept.response.episode
            predictors += of_response if episode is None else episode.sampled(of_response)
    responses = [(document.group, kept) for document in documents for kept in document.kept]
    lengths = torch.tensor([_num_trained_tokens(kept) for _, kept in responses], dtype=torch.int64)
    num_response_tokens = int(lengths.sum())
    return Microbatch(
        input_ids_T=torch.tensor(input_ids, dtype=torch.int64),
        position_ids_T=torch.tensor(position_ids, dtype=torch.int64),
        document_lengths=tuple(document.lengths for document in documents),
        predictor_K=torch.tensor(predictors, dtype=torch.int64),
        token_ids_K=torch.tensor([t for _, kept in responses for t in kept.response.sampled_ids], dtype=torch.int64),
        response_K=torch.arange(len(responses)).repeat_interleave(lengths),
        sampling_logprobs_K=_column([x for _, kept in responses for x in kept.response.sampled_logprobs]),
        old_logprobs_K=torch.zeros(num_response_tokens),
        num_tokens_B=lengths.to(torch.float32),
        identity_B=torch.tensor([_identity(group, kept) for group, kept in responses], dtype=torch.int64),
        **_statistics(responses),
    )


def _identity(group: ResponseGroup, kept: KeptResponse) -> int:
    pool, index = group.pool, kept.response.sample_index
    return response_identity(step=pool.step, slot=pool.slot, prompt_id=pool.prompt.prompt_id, sample_index=index)


def _statistics(responses: Sequence[tuple[ResponseGroup, KeptResponse]]) -> dict[str, Any]:
    """What travels with every response, by field name. Shapes ``(B,)``."""
    return {
        "rewards_B": _column([kept.response.reward for _, kept in responses]),
        "is_positive_B": torch.tensor([kept.response.is_positive for _, kept in responses], dtype=torch.bool),
        "advantage_B": _column([kept.advantage or 0.0 for _, kept in responses]),
        "inverse_probability_B": _column(
            [
                kept.inverse_probability * kept.response.inverse_probability * group.pool.inverse_probability
                for group, kept in responses
            ]
        ),
        "group_size_B": _column([len(group.kept) for group, _ in responses]),
        "pool_weight_B": _column(
            [kept.selection_weight * len(group.kept) / max(group.pool.num_sampled, 1) for group, kept in responses]
        ),
    }


def _column(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)
