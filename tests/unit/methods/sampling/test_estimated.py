from __future__ import annotations

import pytest

from ada_lightning.core.records import Belief, Grade, ResponsePool, SamplingSettings
from ada_lightning.core.stopping import CappedRule, FixedRule
from ada_lightning.methods.sampling import EstimatedSampler
from ada_lightning.methods.sampling.forecast import forecast
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.engines.scripted import ScriptedEngine
from tests.builders import Collector, InstantGrader, decode, make_prompt, make_response

SETTINGS = {"responses_per_prompt": 8, "gamma": 0.5, "n_min": 2, "n_max": 32, "group_size": 32}
PASS_RATES = (1 / 64, 1 / 16, 1 / 4, 1.0 - 1e-9)


def make_pools(pass_rates=PASS_RATES):
    return [
        ResponsePool(make_prompt(slot), slot, belief=Belief(10 * rate, 10 * (1 - rate)))
        for slot, rate in enumerate(pass_rates)
    ]


def planned(sampler, pools):
    sampler.plan(pools)
    return [sampler.num_to_draw(pool) for pool in pools]


def test_it_is_a_sampler():
    sampler = EstimatedSampler(**SETTINGS)
    assert (sampler.group_size, sampler.samples_per_round, sampler.budget_per_step) == (32, 32, 0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # 32 responses by 8 : 4 : 2 : 1 are 17.07, 8.53, 4.27, 2.13: the last one goes to 8.53
        ({"gamma": 0.5}, [17, 9, 4, 2]),
        # by 64 : 16 : 4 : 1, the last two at their lower bound: 28 by 4 : 1 are 22.4 and 5.6
        ({"gamma": 1.0}, [22, 6, 2, 2]),
        ({"gamma": 1.0, "n_min": 1}, [24, 6, 1, 1]),  # 30 by 4 : 1
        ({"gamma": 0.5, "n_max": 12, "group_size": 12}, [12, 11, 6, 3]),  # 20 by 4 : 2 : 1 are 11.43, 5.71, 2.86
        ({"gamma": 0.0}, [8, 8, 8, 8]),
        ({"gamma": 400.0}, [26, 2, 2, 2]),  # 64^400 is no float
    ],
)
def test_responses_follow_the_power_of_the_pass_rate_inside_the_bounds(change, expected):
    assert planned(EstimatedSampler(**{**SETTINGS, **change}), make_pools()) == expected


def test_equal_beliefs_share_equally():
    assert planned(EstimatedSampler(**SETTINGS), make_pools([1 / 17] * 5)) == [8] * 5


def test_the_total_counts_the_prompts_that_are_there():
    sampler = EstimatedSampler(**SETTINGS)
    assert sum(planned(sampler, make_pools(PASS_RATES[:3]))) == 24
    assert planned(sampler, []) == []


def test_a_plan_is_drawn_once_and_failed_draws_are_not_made_up_for():
    sampler = EstimatedSampler(**SETTINGS)
    pools = make_pools()
    assert planned(sampler, pools)[2] == 4
    pools[2].add(make_response(0, 1.0))
    assert sampler.num_to_draw(pools[2]) == 3
    pools[2].num_drawn = 4
    assert sampler.num_to_draw(pools[2]) == 0
    pools[2].num_drawn = 5
    assert sampler.num_to_draw(pools[2]) == 0


def test_each_slot_has_its_own_fixed_rule():
    sampler = EstimatedSampler(**SETTINGS)
    pools = make_pools()
    counts = planned(sampler, pools)
    assert [sampler.end(pool).rule for pool in pools] == [FixedRule(count) for count in counts]


def test_a_repeated_step_has_the_same_plan_after_a_resume():
    first, second = EstimatedSampler(**SETTINGS), EstimatedSampler(**SETTINGS)
    expected = planned(first, make_pools())
    first.learn(make_pools())
    planned(second, make_pools([0.5] * 3))
    second.load_state_dict(first.state_dict())
    assert planned(second, make_pools()) == expected


def collect(grader=None):
    rates = dict(enumerate(PASS_RATES))
    collector = Collector(decode=decode, seed=0)
    groups, stats = collector.collect(
        [make_prompt(key) for key in rates],
        engine=ScriptedEngine(pass_rates=rates, num_polls=lambda generator, is_positive: generator.randrange(1, 20)),
        grader=grader or InstantGrader(),
        sampler=EstimatedSampler(**SETTINGS),
        selection=AllSelection(),
        settings=SamplingSettings(max_new_tokens=4),
        stage="train",
        step=0,
        policy_version=0,
        beliefs=[pool.belief for pool in make_pools()],
    )
    return groups, stats


def test_a_collection_gives_every_prompt_its_planned_number_in_one_pass():
    groups, stats = collect()
    assert [group.pool.num_sampled for group in groups] == [17, 9, 4, 2]
    assert [len(group.kept) for group in groups] == [17, 9, 4, 2]
    assert [group.pool.rule for group in groups] == [FixedRule(17), FixedRule(9), FixedRule(4), FixedRule(2)]
    assert all(response.round_index == 0 for group in groups for response in group.pool.responses)
    assert stats.num_drawn == 32


def test_draws_without_a_grade_shorten_the_rule_that_the_pool_ended_by():
    failing = InstantGrader(lambda text: Grade(None, "OSError") if text == "1" else Grade(0.0))
    groups, stats = collect(failing)
    assert [group.pool.num_drawn for group in groups] == [17, 9, 4, 2]
    last = groups[3].pool  # every response was right, none could be graded
    assert last.rule == CappedRule(FixedRule(2), 0)
    assert stats.num_failed >= 2


def test_a_forecast_spends_the_same_total():
    result = forecast([(0, 8), (4, 8), (8, 8)], EstimatedSampler(**SETTINGS), AllSelection())
    assert result.num_sampled == 8.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"responses_per_prompt": 1}, r"responses_per_prompt = 1 is less than n_min = 2: .* lower n_min"),
        ({"responses_per_prompt": 33}, r"responses_per_prompt = 33 exceeds n_max = 32: .* raise n_max"),
        ({"n_min": 0}, r"n_min must be at least 1; got 0"),
        ({"gamma": -0.5}, r"gamma must be 0 \(uniform\) or positive, and finite; got -0.5"),
        ({"gamma": float("nan")}, r"gamma must be .* got nan"),
        ({"n_min": 33}, r"n_max = 32 is less than n_min = 33"),
        ({"group_size": 33}, r"group_size must be in \[1, n_max = 32\]; got 33"),
        ({"group_size": 0}, r"group_size must be in \[1, n_max = 32\]; got 0"),
        (
            {"n_min": 0, "gamma": -1.0, "responses_per_prompt": 40},
            r"n_min must be .*; responses_per_prompt = 40 exceeds .*; gamma must be",
        ),
    ],
)
def test_sizes_that_cannot_work_are_rejected_together(change, message):
    with pytest.raises(ValueError, match=message):
        EstimatedSampler(**{**SETTINGS, **change})
