import pytest

from ada_lightning.core.records import Prompt, Response, ResponseGroup, ResponsePool
from ada_lightning.core.result import RolloutResult, RolloutStats
from ada_lightning.rollout.engine_speed import EngineSpeed, longest_response


def rollout(lengths, seconds):
    pool = ResponsePool(Prompt("p", (1,)), 0)
    for index, length in enumerate(lengths):
        pool.add(
            Response(
                prompt_id="p", sample_index=index, round_index=0, response_ids=(1,) * length, sampling_logprobs=(),
                text="", is_truncated=False, reward=0.0, is_positive=False, policy_version=0,
            )
        )  # fmt: skip
    stats = RolloutStats(num_drawn=len(lengths), generated_tokens=sum(lengths), seconds=seconds)
    return RolloutResult(0, 0, (ResponseGroup(pool, ()),), stats)


def seconds(lengths, per_step, per_token):
    """Of an engine of that speed, where all run at once."""
    return per_step * max(lengths) + per_token * sum(lengths)


def test_two_rollouts_tell_what_a_step_costs_and_what_a_sequence_adds():
    few, many = [8], [16, 4, 12]
    timed = [rollout(lengths, seconds(lengths, 0.25, 0.5)) for lengths in (few, many)]
    speed = EngineSpeed.fitted(timed, num_slots=3)
    assert (speed.seconds_per_step, speed.seconds_per_token) == (pytest.approx(0.25), pytest.approx(0.5))


@pytest.mark.parametrize(("per_step", "per_token"), [(0.5, 0.0), (0.0, 0.5), (0.125, 0.125)])
def test_a_block_that_fits_takes_as_long_as_it_was_timed(per_step, per_token):
    """An engine for which many are as quick as few, one that has them one by one, and one between."""
    few, many = [8] * 2, [8] * 16
    timed = [rollout(lengths, seconds(lengths, per_step, per_token)) for lengths in (few, many)]
    speed = EngineSpeed.fitted(timed, num_slots=16)
    expected = pytest.approx(seconds([8] * 16, per_step, per_token))
    assert speed.rollout_seconds(16, response_tokens=8, longest=8, num_rounds=1) == (expected, expected)


def test_twice_the_slots_take_twice_as_long_at_least():
    speed = EngineSpeed(seconds_per_step=0.5, seconds_per_token=0.25, num_slots=16)
    once, _ = speed.rollout_seconds(16, response_tokens=8, longest=8, num_rounds=1)
    twice, _ = speed.rollout_seconds(32, response_tokens=8, longest=8, num_rounds=1)
    assert twice == 2 * once


def test_rounds_one_after_another_are_the_upper_bound_of_an_engine_with_room():
    speed = EngineSpeed(seconds_per_step=0.5, seconds_per_token=0.0, num_slots=64)
    assert speed.rollout_seconds(32, response_tokens=8, longest=8, num_rounds=8) == (4.0, 32.0)


def test_noise_makes_nothing_negative():
    """More seconds for fewer tokens in as many steps, and no more for twice the steps."""
    for timed in ([rollout([8], 4.0), rollout([8, 8], 2.0)], [rollout([8], 4.0), rollout([16], 2.0)]):
        speed = EngineSpeed.fitted(timed, num_slots=4)
        assert speed.seconds_per_step >= 0
        assert speed.seconds_per_token >= 0


def test_a_rollout_without_responses_has_no_longest():
    assert longest_response(RolloutResult(0, 0, (), RolloutStats())) == 0


def test_nothing_timed_is_refused():
    with pytest.raises(ValueError, match="at least one timed rollout"):
        EngineSpeed.fitted([], num_slots=4)
