from __future__ import annotations

import pytest

from tests.builders import make_pool
from tests.unit.core.test_step import SAMPLERS


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_keeps_the_contract(name):
    sampler = SAMPLERS[name]()
    pools = [make_pool([], slot=slot, key=slot + 1) for slot in range(5)]
    sampler.plan(pools)
    wanted = [sampler.num_to_draw(pool) for pool in pools]
    assert all(0 <= number <= sampler.samples_per_round for number in wanted)
    assert [sampler.num_to_draw(pool) for pool in pools] == wanted  # asking changes nothing
    frozen = sampler.frozen()
    frozen.plan(pools[:1])
    assert [sampler.num_to_draw(pool) for pool in pools] == wanted  # nor does the plan of another step
    assert sampler.end(pools[0]).inverse_probability >= 1
    assert 0 <= sampler.chance_to_go_on(pools[0], 1, 1, 0) <= 1
    assert sampler.expected_need(pools[0]) >= 0
    full = [make_pool([1.0, 0.0] * (sampler.samples_per_round * 8), key=slot + 50, slot=slot) for slot in range(5)]
    assert not any(sampler.num_to_draw(pool) for pool in full)
    known = frozen.state_dict()
    sampler.learn([pool for pool in full if pool.num_drawn])
    assert frozen.state_dict() == known  # nor what is learned while a step is open
    restored = SAMPLERS[name]()
    restored.load_state_dict(sampler.state_dict())
    assert restored.state_dict() == sampler.state_dict()
