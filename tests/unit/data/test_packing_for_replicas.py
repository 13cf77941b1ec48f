"""Whatever is trained on, every replica computes as many microbatches as the others, and about as many tokens."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ada_lightning.training.packing import pack_for_replicas, pack_groups
from tests.unit.parallel.small_training import ROLLOUTS, group_of


def pack(groups, num_replicas, *, num_minibatches=1, max_tokens=64, **options):
    return pack_for_replicas(
        groups, num_replicas=num_replicas, num_minibatches=num_minibatches, max_tokens_per_microbatch=max_tokens,
        policy_version=0, shuffle_seed=1, **{"keep_groups_without_signal": False, "share_prompts": True, **options},
    )  # fmt: skip


def trained_tokens(replicas):
    """How often each (reward, tokens, advantage statistics) of a response is trained on."""
    return Counter(
        (microbatch.token_ids_K[microbatch.response_K == index].tolist().__repr__(), float(microbatch.rewards_B[index]))
        for batches in replicas
        for batch in batches
        for microbatch in batch
        if not microbatch.is_filler
        for index in range(len(microbatch.rewards_B))
    )


def random_groups(seed):
    generator = random.Random(seed)
    sizes = [generator.randrange(1, 9) for _ in range(generator.randrange(2, 20))]
    return [group_of(key, [float(index % 2) for index in range(size)], max_length=30) for key, size in enumerate(sizes)]


@pytest.mark.parametrize("num_replicas", [1, 2, 3, 8])
@pytest.mark.parametrize("num_minibatches", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_everything_is_trained_once_and_nobody_waits_for_a_microbatch(seed, num_replicas, num_minibatches):
    groups = random_groups(seed)
    replicas = pack(groups, num_replicas, num_minibatches=num_minibatches)
    assert len(replicas) == num_replicas
    assert trained_tokens(replicas) == trained_tokens(pack(groups, 1, num_minibatches=num_minibatches))
    for batches in zip(*replicas, strict=True):
        assert len({len(batch.microbatches) for batch in batches}) == 1
        assert len({batch.counts for batch in batches}) == 1
        for microbatches in zip(*(batch.microbatches for batch in batches), strict=True):
            real = [m for m in microbatches if not m.is_filler]
            assert real  # a round of fillers only would be work for nothing
            assert all(m.num_computed_tokens <= 64 or len(m.rewards_B) == 1 for m in real)


def test_replicas_get_about_the_same_number_of_tokens_and_a_large_group_is_cut():
    groups = [group_of(key, [1.0, 0.0, 1.0, 0.0], max_length=30) for key in range(64)]
    replicas = pack(groups, 4, max_tokens=512)
    tokens = [sum(m.num_computed_tokens for batch in batches for m in batch) for batches in replicas]
    assert max(tokens) <= 1.02 * min(tokens)
    large = [group_of(1, [float(index % 2) for index in range(16)], max_length=30)]
    assert len(pack(large, 1, max_tokens=10_000)[0][0].microbatches) == 1
    assert not any(m.is_filler for batches in pack(large, 4, max_tokens=10_000) for m in batches[0])


def test_fewer_responses_than_replicas_leave_fillers_that_are_short():
    replicas = pack(ROLLOUTS["one document"](), 4, max_tokens=10_000)
    microbatches = [m for batches in replicas for m in batches[0]]
    assert [m.is_filler for m in microbatches].count(True) == 2
    shortest = min(m.num_computed_tokens for m in microbatches if not m.is_filler)
    assert {m.num_computed_tokens for m in microbatches if m.is_filler} == {shortest}
    assert {len(m.rewards_B) for m in microbatches if m.is_filler} == {1}


def test_nothing_to_train_on_is_no_microbatch_anywhere():
    assert [len(batches[0].microbatches) for batches in pack(ROLLOUTS["no signal"](), 3)] == [0, 0, 0]


def test_one_replica_is_packed_as_ever():
    groups = random_groups(0)
    options = {"num_minibatches": 2, "max_tokens_per_microbatch": 64, "policy_version": 0, "shuffle_seed": 1}
    (batches,) = pack(groups, 1, num_minibatches=2)
    for mine, other in zip(
        batches, pack_groups(groups, keep_groups_without_signal=False, share_prompts=True, **options), strict=True
    ):
        assert [m.document_lengths for m in mine] == [m.document_lengths for m in other]
