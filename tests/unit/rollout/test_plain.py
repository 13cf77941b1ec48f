from __future__ import annotations

import io

import pytest
import torch

from ada_lightning.core.plain import from_plain, to_plain
from ada_lightning.core.records import Belief
from ada_lightning.core.stopping.rule import CappedRule, FixedRule, QuotaRule
from tests.builders import make_pool


@pytest.mark.parametrize(
    "rule", [None, FixedRule(4), CappedRule(QuotaRule(k_pos=1, k_neg=1, samples_per_round=2, n_max=8), 6)]
)
def test_a_pool_survives_a_checkpoint_of_primitives(rule):
    pool = make_pool([1.0, 0.0, 0.25], slot=3)
    pool.rule, pool.belief, pool.step = rule, Belief(2.5, 1.0), 9
    file = io.BytesIO()
    torch.save(to_plain(pool), file)
    restored = from_plain(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    assert restored == pool
    assert isinstance(restored.prompt.prompt_ids, tuple)
    hash(restored.rule)


def test_another_type_is_not_made():
    with pytest.raises(ValueError, match="holds a Popen, which is neither part of a pool nor a stopping rule"):
        from_plain({"_type": "Popen", "args": ["true"]})
