from __future__ import annotations

import pytest

from ada_lightning.core.records import Belief
from ada_lightning.methods.sampling import FirstVisitSampler
from ada_lightning.methods.selection import SeenSelection
from tests.builders import make_pool


def test_a_first_visit_measures_and_counts_and_later_ones_train():
    sampler, selection = FirstVisitSampler(group_size=2, num_first=8), SeenSelection()
    for belief, size in ((Belief(), 8), (Belief(3.0, 2.0, is_seen=True), 2)):
        pool = make_pool([])
        pool.belief = belief
        assert sampler.num_to_draw(pool) == size <= sampler.samples_per_round
        assert sampler.end(pool).rule.stops(size, 0)
        assert not sampler.end(pool).rule.stops(size - 1, 0)
        drawn = make_pool([1.0, 0.0] * (size // 2))
        drawn.belief = belief
        assert sampler.num_to_draw(drawn) == 0
        kept = selection.select(drawn)
        assert len(kept) == (2 if belief.is_seen else 0)
        assert selection.takes(drawn) == belief.is_seen


def test_what_is_refused():
    with pytest.raises(ValueError, match="group_size must be at least 1; got 0; num_first must be at least 1; got 0"):
        FirstVisitSampler(group_size=0, num_first=0)
