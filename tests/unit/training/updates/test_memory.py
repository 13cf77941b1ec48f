"""Out of memory in an update: once more in halves, with the same gradient; then a message that names the way out."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch

from ada_lightning.training.updates import UpdateOutOfMemoryError, halved, is_out_of_memory
from tests.unit.training.test_policy import EXACT, GROUPS, fit, gradients, make_policy, pack, random_group, weights


def whole_microbatch(share_prompts=True):
    groups = [*GROUPS, random_group(4, [1.0, 0.0, 0.0, 1.0, 1.0])]
    (batch,) = pack(groups, share_prompts=share_prompts, keep_all=True)
    (microbatch,) = batch.microbatches
    return batch, microbatch


def rows(microbatch):
    """Per response: its conversation's tokens and positions, what predicts its tokens, and all that it carries."""
    found, start, response = [], 0, 0
    for prompt_length, *lengths in microbatch.document_lengths:
        begin = start + prompt_length
        for length in lengths:
            where = [*range(start, start + prompt_length), *range(begin, begin + length)]
            mine = microbatch.response_K == response
            place = {position: index for index, position in enumerate(where)}
            found.append(
                {
                    "tokens": microbatch.input_ids_T[where].tolist(),
                    "positions": microbatch.position_ids_T[where].tolist(),
                    "predictors": [place[int(position)] for position in microbatch.predictor_K[mine]],
                    **{
                        field.name: getattr(microbatch, field.name)[mine].tolist()
                        for field in fields(microbatch)
                        if field.name.endswith("_K") and field.name not in ("response_K", "predictor_K")
                    },
                    **{
                        field.name: getattr(microbatch, field.name)[response].item()
                        for field in fields(microbatch)
                        if field.name.endswith("_B")
                    },
                }
            )
            begin += length
            response += 1
        start = begin
    assert start == len(microbatch.input_ids_T)
    assert response == len(microbatch.num_tokens_B)
    return found


@pytest.mark.parametrize("share_prompts", [True, False])
def test_halves_hold_every_response_as_the_whole_did(share_prompts):
    _, microbatch = whole_microbatch(share_prompts)
    parts = halved(microbatch)
    assert len(parts) == 2
    assert [row for part in parts for row in rows(part)] == rows(microbatch)
    response_tokens = [float(part.num_tokens_B.sum()) for part in parts]
    assert max(response_tokens) - min(response_tokens) <= float(microbatch.num_tokens_B.max())
    quarters = [quarter for part in parts for quarter in halved(part)]
    assert [row for part in quarters for row in rows(part)] == rows(microbatch)


def test_a_single_response_stays_whole():
    _, microbatch = whole_microbatch()
    while len(microbatch.num_tokens_B) > 1:
        microbatch = halved(microbatch)[0]
    assert halved(microbatch) == (microbatch,)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[x] can't allocate memory: 9 GB"),
    ],
)
def test_an_update_without_memory_is_repeated_in_halves_with_the_same_outcome(tiny_path, error):
    (batch,) = pack()
    expected = gradients(make_policy(tiny_path), [batch])
    policy = make_policy(tiny_path, lr=1.0)
    before = weights(policy)
    loss, calls = policy.microbatch_loss, []

    def fails_at_first(microbatch, batch):
        calls.append(microbatch.num_computed_tokens)
        if len(calls) == 1:
            loss(microbatch, batch)[0].backward()  # gradients of the failed attempt must not stay
            raise error
        return loss(microbatch, batch)

    policy.microbatch_loss = fails_at_first
    with pytest.warns(RuntimeWarning, match=r"ran out of memory .* in 2 parts .*max_tokens_per_microbatch"):
        fit(policy, [batch])
    steps = {name: before[name] - after for name, after in weights(policy).items()}
    torch.testing.assert_close(steps, expected, **EXACT)
    assert (policy.policy_version, policy.num_memory_retries) == (1, 1)
    assert max(calls[1:]) < calls[0]


def test_where_halves_do_not_fit_either_the_way_out_is_named(tiny_path):
    policy = make_policy(tiny_path)
    (batch,) = pack()

    def always_fails(microbatch, batch):
        raise torch.OutOfMemoryError("CUDA out of memory")

    policy.microbatch_loss = always_fails
    with (
        pytest.warns(RuntimeWarning, match="repeated"),
        pytest.raises(UpdateOutOfMemoryError, match=r"Lower data.max_tokens_per_microbatch to \d+ or less.*ckpt=last"),
    ):
        fit(policy, [batch])


def test_other_errors_pass(tiny_path):
    policy = make_policy(tiny_path)
    (batch,) = pack()

    def fails(microbatch, batch):
        raise RuntimeError("a bug")

    policy.microbatch_loss = fails
    with pytest.raises(RuntimeError, match="a bug"):
        fit(policy, [batch])
    assert not is_out_of_memory(ValueError("out of memory"))
