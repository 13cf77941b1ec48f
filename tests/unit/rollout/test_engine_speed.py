import pytest

from ada_lightning.core.step_records import RolloutResult, RolloutStats
from ada_lightning.rollout.engine_speed import EngineSpeed, longest_response
from tests.builders import make_group


def rollout(lengths, seconds):
    group = make_group([0.0] * len(lengths), num_tokens=lengths)
    stats = RolloutStats(num_drawn=len(lengths), generated_tokens=sum(lengths), seconds=seconds)
    return RolloutResult(0, 0, (group,), stats)


def seconds(lengths, per_step, per_token):
    """Of an engine of that speed, where all run at once."""
    return per_step * max(lengths) + per_token * sum(lengths)


@pytest.mark.parametrize(("per_step", "per_token"), [(0.25, 0.5), (0.5, 0.0), (0.0, 0.5), (0.125, 0.125)])
def test_two_rollouts_tell_what_a_step_costs_and_what_a_sequence_adds(per_step, per_token):
    """An engine for which many are as quick as few, one that has them one by one, and two between."""
    timed = [rollout(lengths, seconds(lengths, per_step, per_token)) for lengths in ([8], [16, 4, 12])]
    speed = EngineSpeed.fitted(timed, num_slots=16)
    assert (speed.seconds_per_step, speed.seconds_per_token) == pytest.approx((per_step, per_token))
    expected = pytest.approx(seconds([8] * 16, per_step, per_token))
    assert speed.rollout_seconds(16, response_tokens=8, longest=8, num_rounds=1) == (expected, expected)


def test_twice_the_slots_take_twice_as_long_at_least_and_rounds_follow_one_another_at_most():
    speed = EngineSpeed(seconds_per_step=0.5, seconds_per_token=0.25, num_slots=16)
    once, _ = speed.rollout_seconds(16, response_tokens=8, longest=8, num_rounds=1)
    twice, _ = speed.rollout_seconds(32, response_tokens=8, longest=8, num_rounds=1)
    assert twice == 2 * once
    roomy = EngineSpeed(seconds_per_step=0.5, seconds_per_token=0.0, num_slots=64)
    assert roomy.rollout_seconds(32, response_tokens=8, longest=8, num_rounds=8) == (4.0, 32.0)


def test_noise_makes_nothing_negative():
    """More seconds for fewer tokens in as many steps, and no more for twice the steps."""
    for timed in ([rollout([8], 4.0), rollout([8, 8], 2.0)], [rollout([8], 4.0), rollout([16], 2.0)]):
        speed = EngineSpeed.fitted(timed, num_slots=4)
        assert speed.seconds_per_step >= 0
        assert speed.seconds_per_token >= 0
    with pytest.raises(ValueError, match="at least one timed rollout"):
        EngineSpeed.fitted([], num_slots=4)
    assert longest_response(RolloutResult(0, 0, (), RolloutStats())) == 0
