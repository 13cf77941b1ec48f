from __future__ import annotations

import pytest
import torch

from ada_lightning.core.records import KeptResponse, ResponseGroup
from ada_lightning.training.packing import pack_groups
from tests.builders import PACKING, make_group, make_pool, packed

ALONE = {"share_prompts": False}


def test_a_document_is_prompt_then_response_and_nothing_is_padded():
    (microbatch,) = packed(make_group([1.0, 0.0], num_tokens=[3, 1]), **ALONE)
    assert microbatch.input_ids_T.tolist() == [7, 0, 0, 5, 6, 7, 7, 0, 0, 5]
    assert microbatch.position_ids_T.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3]
    assert microbatch.document_lengths == ((3, 3), (3, 1))
    assert microbatch.predictor_K.tolist() == [2, 3, 4, 6 + 2]
    assert microbatch.token_ids_K.tolist() == [5, 6, 7, 5]
    assert microbatch.response_K.tolist() == [0, 0, 0, 1]
    assert microbatch.num_tokens_B.tolist() == [3.0, 1.0]
    torch.testing.assert_close(microbatch.sampling_logprobs_K, torch.tensor([-0.1, -0.2, -0.3, -0.1]))


def test_a_shared_prompt_is_followed_by_its_responses():
    (microbatch,) = packed(make_group([1.0, 0.0], num_tokens=[2, 1]))
    assert microbatch.input_ids_T.tolist() == [7, 0, 0, 5, 6, 5]
    assert microbatch.position_ids_T.tolist() == [0, 1, 2, 3, 4, 3]
    assert microbatch.document_lengths == ((3, 2, 1),)
    assert microbatch.predictor_K.tolist() == [2, 3, 2]


def test_a_group_too_long_for_one_document_repeats_its_prompt():
    batch = packed(make_group([1.0, 0.0] * 3, num_tokens=[4] * 6), max_tokens_per_microbatch=12)
    assert [m.document_lengths for m in batch] == [((3, 4, 4),)] * 3


def test_what_its_loss_is_made_of_travels_with_every_response():
    pool = make_pool([1.0, 0.0, 0.0, 0.0, 0.0, 1.0], key=7)
    pool.inverse_probability = 2.0
    first, second = pool.responses[:2]
    kept = KeptResponse(first, 2.0, 3.0, advantage=6.0), KeptResponse(second, 4.0, advantage=-1.0)
    (microbatch,) = packed(ResponseGroup(pool, kept))
    assert microbatch.advantage_B.tolist() == [6.0, -1.0]
    assert microbatch.inverse_probability_B.tolist() == [6.0, 2.0]
    assert microbatch.group_size_B.tolist() == [2.0, 2.0]
    assert microbatch.pool_weight_B.tolist() == pytest.approx([2 * 2 / 6, 4 * 2 / 6])


def test_groups_without_signal_are_not_computed_but_stay_in_the_denominators():
    groups = [make_group([1.0, 1.0], key=1), make_group([1.0, 0.0], key=2), make_group([0.0, 0.0], key=3)]
    batch = packed(*groups)
    assert sum(len(m.rewards_B) for m in batch) == 2
    assert (batch.counts.num_prompts, batch.counts.num_responses, batch.counts.num_response_tokens) == (3, 6, 12)
    whole = packed(*groups, keep_groups_without_signal=True)
    assert sum(len(m.rewards_B) for m in whole) == 6
    assert packed(make_group([0.0, 0.0])).microbatches == ()


def test_a_response_without_an_advantage_is_not_computed_but_counts_as_one_of_its_group():
    """As partial credit that is just the group's mean, or what a baseline rounded to 0 or 1 expected."""
    group = make_group([1.0, 0.5, 0.0], num_tokens=[2, 3, 4]).with_advantages([0.5, 0.0, -0.5])
    batch = packed(group)
    (microbatch,) = batch.microbatches
    assert sorted(microbatch.num_tokens_B.tolist()) == [2.0, 4.0]
    assert microbatch.group_size_B.tolist() == [3.0, 3.0]
    assert (batch.counts.num_responses, batch.counts.num_response_tokens) == (3.0, 9.0)
    (microbatch,) = packed(group, keep_groups_without_signal=True)
    assert sorted(microbatch.num_tokens_B.tolist()) == [2.0, 3.0, 4.0]
    (microbatch,) = packed(make_group([1.0, 0.0], num_tokens=[0, 2]))  # nor does one without tokens
    assert len(microbatch.rewards_B) == 1


def test_microbatches_are_as_few_as_the_budget_allows_and_hold_about_the_same():
    """76 tokens in all: filling one after the other would leave 24 + 24 + 24 + 4."""
    lengths = [1, 9, 4, 4, 2, 7, 3, 1, 8, 7]
    batch = packed(make_group([1.0, 0.0] * 5, num_tokens=lengths), max_tokens_per_microbatch=24, **ALONE)
    assert sorted(int(n) for m in batch for n in m.num_tokens_B) == sorted(lengths)
    sizes = [m.num_computed_tokens for m in batch]
    assert len(sizes) == 4  # ceil(76 / 24)
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 4  # the shortest document


def test_minibatches_are_whole_groups_in_an_order_of_the_seed_and_share_the_counts():
    def keys(**options):
        """Of every prompt, its first token."""
        batches = pack_groups(groups, **PACKING | {"num_minibatches": 3} | options)
        assert [batch.update_index for batch in batches] == [0, 1, 2]
        assert [batch.counts.num_prompts for batch in batches] == [2, 2, 2]
        return [sorted({int(ids) for m in batch for ids in m.input_ids_T[m.position_ids_T == 0]}) for batch in batches]

    groups = [make_group([1.0, 0.0], key=key) for key in range(1, 7)]
    assert sorted(key for part in keys() for key in part) == [1, 2, 3, 4, 5, 6]
    assert keys() == keys() != keys(shuffle_seed=1)


def test_more_minibatches_than_prompts_leave_some_empty():
    first, second = pack_groups([make_group([1.0, 0.0])], **PACKING | {"num_minibatches": 2})
    assert (len(first.microbatches), len(second.microbatches)) == (1, 0)
    assert first.counts.num_prompts == second.counts.num_prompts == 1
