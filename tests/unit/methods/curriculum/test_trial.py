"""The decision: what a step is made of, when it changes, and that it goes on exactly from its state."""

from __future__ import annotations

import itertools
import json
import math
import random

import pytest

from ada_lightning.methods.curriculum.trial import COST_CAP, LONGEST_TRIAL, GroupResult, Mode, Trial, bound

GOOD, EVEN, EMPTY = GroupResult(2, 2, 200.0, 200.0), GroupResult(1, 3, 200.0, 200.0), GroupResult(0, 4, 200.0, 0.0)


def observe(trial, chosen, control, step=0, cost_ratio=1.0, group_size=4):
    return trial.observe(chosen, control, cost_ratio=cost_ratio, group_size=group_size, generator=random.Random(step))


def feed(trial, chosen, control, steps):
    """Feed the same groups step for step, as many of each kind as the mode asks for."""
    changes = []
    for step in range(steps):
        num_control = trial.num_control(8)
        kinds = [
            list(itertools.islice(itertools.cycle(kind), n))
            for kind, n in ((chosen, 8 - num_control), (control, num_control))
        ]
        if change := observe(trial, *kinds, step):
            changes.append((step + 1, change))
    return changes


@pytest.mark.parametrize("num_prompts", [2, 3, 8, 31, 32, 512])
def test_every_step_has_control_groups_and_no_mode_is_empty(num_prompts):
    shares = {mode: Trial(mode=mode).num_control(num_prompts) for mode in Mode}
    assert shares[Mode.TRIAL] == num_prompts // 2
    assert 1 <= shares[Mode.CHOSEN] < num_prompts
    assert shares[Mode.UNIFORM] == num_prompts


def test_what_pays_is_chosen_and_given_up_when_it_turns():
    trial = Trial()
    changes = feed(trial, [GOOD, EVEN], [EVEN, EMPTY], 100)
    assert [change.after for _, change in changes] == [Mode.CHOSEN]
    assert trial.ratio_low > 1.0
    assert "worth more (lately 1." in changes[0][1].reason
    assert trial.gain > 1.2
    changes = feed(trial, [EMPTY], [GOOD], 300)
    assert changes[0][1].before is Mode.CHOSEN
    assert "have become worth less" in changes[0][1].reason
    assert [change.after for _, change in changes[:2]] == [Mode.UNIFORM, Mode.TRIAL]
    assert changes[1][0] - changes[0][0] == 64, "the first wait"
    assert trial.number >= 2
    assert trial.allowed < 6 * 0.05 / (math.pi * 1.9) ** 2


def test_no_difference_ends_with_the_time():
    trial = Trial()
    changes = feed(trial, [EVEN], [EVEN], LONGEST_TRIAL + 70)
    assert [(step, change.after) for step, change in changes] == [(96, Mode.UNIFORM), (96 + 64, Mode.TRIAL)]
    assert "no difference was shown in 96 steps" in changes[0][1].reason
    assert trial.gain == pytest.approx(1.0)


def test_worse_prompts_end_the_trial_early():
    changes = feed(Trial(), [EMPTY], [GOOD], 40)
    assert changes[0][1].after is Mode.UNIFORM
    assert "worth less" in changes[0][1].reason


def test_the_first_step_gives_a_rate_and_bets_on_nothing():
    trial = Trial()
    observe(trial, [GOOD] * 4, [EMPTY] * 4)
    assert trial.better.count == 8 == trial.worse.count
    observe(trial, [GOOD] * 4, [EMPTY] * 4)
    assert trial.better.count == 12


def test_groups_that_lack_a_grade_are_left_out_of_the_bets():
    trial = Trial()
    observe(trial, [GOOD] * 4, [EVEN] * 4)
    observe(trial, [GroupResult(1, 2, 150.0, 150.0)] * 4, [EVEN] * 4)
    assert trial.better.count == 8, "no complete chosen group: no block"
    observe(trial, [GroupResult(1, 2, 150.0, 150.0), GOOD, GOOD, EVEN], [EVEN] * 4)
    assert trial.better.count == 11
    assert trial.given == pytest.approx(4 * 1 + 4 * 0.75 + 4 * 2 / 3 + 4 * 0.75 + 2 / 3 + 2 + 0.75 + 4 * 0.75)


@pytest.mark.parametrize("group_size", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("cost_ratio", [0.0, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("trains_equal", [False, True])
def test_no_block_reaches_the_bound(group_size, cost_ratio, ratio, trains_equal):
    """Every pair of complete groups, at no cost, at the mean cost and at the cap."""
    for rate in (0.0, 1e-4, 0.01, 1.0):
        cap = COST_CAP * 1.0
        most = bound(rate, cost_ratio, group_size, cap, ratio, trains_equal=trains_equal)
        worths = {}
        for right, tokens in itertools.product(range(group_size + 1), (0.0, 1.0, cap)):
            gave = right * (group_size - right) / group_size
            cost = tokens * (1 + cost_ratio * (trains_equal or gave > 0))
            worths[right, tokens] = (gave - ratio * rate * cost, gave - rate * cost)
        for chosen, control in itertools.product(worths.values(), repeat=2):
            assert abs(chosen[0] - ratio * control[1]) < most
        assert most < 3 * group_size / 4 * ratio + 4 * ratio * rate * cap * (1 + cost_ratio) + 1


def test_very_long_groups_do_not_break_the_bet():
    trial = Trial()
    observe(trial, [GOOD] * 4, [EVEN] * 4)
    observe(trial, [GroupResult(0, 4, 1e9, 0.0)] * 4, [EVEN] * 4)
    assert math.isfinite(trial.better.log_wealth)
    assert trial.worse.log_wealth >= 0.0


def test_long_groups_of_graded_rewards_that_train_without_a_comparison_do_not_break_the_bet():
    """All wrong, but not equally: such a group trains, costs most and gives nothing."""
    trial, graded = Trial(), GroupResult(0, 4, 1e9, 1e9)
    observe(trial, [EVEN] * 4, [EVEN] * 4)
    resumed = Trial()
    resumed.load_state_dict({name: value for name, value in trial.state_dict().items() if name != "trains_equal"})
    for each in (trial, resumed):
        observe(each, [graded] * 3 + [GOOD], [GroupResult(2, 2, 1.0, 1.0)] * 4)
        assert each.worse.count == 12
        assert each.state_dict()["trains_equal"]
    assert resumed.state_dict() == trial.state_dict()


def test_it_goes_on_exactly_from_its_state():
    random_ = random.Random(3)
    kinds = [GOOD, EVEN, EMPTY]

    def step_of(trial, step):
        drawn = random.Random(step)
        num_control = trial.num_control(8)
        chosen = drawn.choices(kinds, [4, 3, 1], k=8 - num_control)
        return observe(trial, chosen, drawn.choices(kinds, [1, 2, 5], k=num_control), step)

    whole, cut = Trial(), random_.randrange(2, 12)
    for step in range(60):
        step_of(whole, step)
    first = Trial()
    for step in range(cut):
        step_of(first, step)
    resumed = Trial()
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for step in range(cut, 60):
        step_of(resumed, step)
    assert resumed.state_dict() == whole.state_dict()
    assert whole.mode is Mode.CHOSEN
