"""Old log-probabilities find their responses again, however a rollout is packed after a resume."""

from __future__ import annotations

from dataclasses import replace

import torch

from ada_lightning.data.old_logprobs import OldLogprobs
from tests.builders import packed, random_group

GROUPS = [random_group(key, [1.0, 0.0, 1.0]) for key in (1, 2, 3)]


def scored(groups, number, **packing):
    """A batch whose old log-probabilities name the response and the place in it, beginning at ``number``."""
    batch = packed(*groups, keep_groups_without_signal=True, **packing)
    filled = []
    for microbatch in batch:
        parts = [
            number + (name % 1000) + torch.arange(size) / 100
            for name, size in zip(microbatch.identity_B.tolist(), microbatch.num_tokens_B.long().tolist(), strict=True)
        ]
        filled.append(replace(microbatch, old_logprobs_K=torch.cat(parts)))
    return replace(batch, microbatches=tuple(filled))


def values(batch):
    return [microbatch.old_logprobs_K.tolist() for microbatch in batch]


def test_a_resume_has_those_of_before_however_it_packs():
    before = scored(GROUPS, 0.0)
    kept = OldLogprobs.restored(OldLogprobs.of(4, [before]).state_dict())
    assert kept.step == 4
    for packing in ({}, {"max_tokens_per_microbatch": 20}, {"share_prompts": False}):
        filled, num_others = kept.put_into(scored(GROUPS, 5000.0, **packing))
        assert values(filled) == values(scored(GROUPS, 0.0, **packing))
        assert num_others == 0


def test_a_response_that_came_out_otherwise_keeps_what_it_was_scored_with_and_is_counted():
    first = GROUPS[0].kept[0]
    ids = tuple(token + 1 for token in first.response.response_ids)
    changed = replace(
        GROUPS[0], kept=(replace(first, response=replace(first.response, response_ids=ids)), *GROUPS[0].kept[1:])
    )
    kept = OldLogprobs.of(4, [scored(GROUPS[:2], 0.0)])
    filled, num_others = kept.put_into(scored([changed, *GROUPS[1:]], 5000.0))
    assert num_others == 1 + len(GROUPS[2].kept)
    is_new = [value >= 5000 for row in values(filled) for value in row]
    assert sum(is_new) == len(ids) + sum(len(kept.response.response_ids) for kept in GROUPS[2].kept)
    assert OldLogprobs.restored(OldLogprobs.of(0, []).state_dict()).by_response == {}
