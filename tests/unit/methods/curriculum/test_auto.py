"""``curriculum=auto``: what a step is made of in each mode, what it learns, and that a state holds all of it."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from ada_lightning.adapters import Core
from ada_lightning.core.protocols import StepCosts
from ada_lightning.core.records import Belief
from ada_lightning.core.stopping import FixedRule, QuotaRule
from ada_lightning.methods.curriculum import AutoCurriculum, Learnability, UniformCurriculum
from ada_lightning.methods.curriculum.auto import MODES, CostClock, sentence_of_change
from ada_lightning.methods.curriculum.trial import Mode
from tests.builders import make_pool
from tests.unit.methods.curriculum.histories import ids, prompts, recalled

EVEN = {f"p{index}": 0.5 for index in range(0, 64, 4)}
"""A quarter of the prompts is worth choosing; the others are all right."""
RATES = {f"p{index}": EVEN.get(f"p{index}", 1.0) for index in range(64)}


def make(**settings):
    return AutoCurriculum(usefulness=Learnability(), **{"cost_ratio": 1.0, **settings})


def choose(curriculum, step=0, num_prompts=8, seed=0, rates=RATES):
    return curriculum.choose(prompts(64), num_prompts, step=step, seed=seed, recall=recalled(rates))


def teach(curriculum, step, good, bad, num_prompts=8):
    """Let the chosen prompts of a step have rewards ``good`` and the control ``bad``; all with a signal train."""
    choose(curriculum, step, num_prompts)
    control = set(curriculum.state_dict()["control"][-1][1])
    pools = []
    for slot in range(num_prompts):
        pool = make_pool(bad if slot in control else good, slot=slot, key=slot)
        pool.step, pool.rule = step, FixedRule(len(good))
        pools.append(pool)
    trained = {pool.slot: sum(r.num_tokens for r in pool.responses) for pool in pools if pool.has_signal}
    curriculum.note_costs(StepCosts(trained, 2.0, 6.0))
    curriculum.observe(pools)


def test_without_a_choice_the_prompts_are_those_of_uniform_order():
    curriculum = make()
    curriculum.trial.mode = Mode.UNIFORM
    for step in range(20):
        uniform = UniformCurriculum().choose(prompts(64), 8, step=step, seed=3, recall=recalled({}))
        assert ids(choose(curriculum, step, seed=3)) == ids(uniform)


@pytest.mark.parametrize(("mode", "num_control"), [(Mode.TRIAL, 4), (Mode.CHOSEN, 1)])
def test_control_prompts_are_of_the_uniform_ones_and_the_others_the_best_of_the_candidates(mode, num_control):
    curriculum = make()
    curriculum.trial.mode = mode
    for step in range(16):
        found = choose(curriculum, step)
        control = curriculum.state_dict()["control"][-1]
        assert control[0] == step
        assert len(control[1]) == num_control
        uniform = UniformCurriculum().choose(prompts(64), 8, step=step, seed=0, recall=recalled({}))
        assert {found[slot].prompt_id for slot in control[1]} <= set(ids(uniform))
        assert len(set(ids(found))) == 8
        chosen = [prompt.prompt_id for slot, prompt in enumerate(found) if slot not in control[1]]
        others = {f"p{position}" for position in curriculum._candidates(64, 8, step, 0)}
        others -= {found[slot].prompt_id for slot in control[1]}
        assert sum(name in EVEN for name in chosen) == min(len(others & set(EVEN)), len(chosen))


@pytest.mark.long
def test_every_prompt_is_control_equally_often():
    curriculum, counts = make(), Counter()
    for step in range(1600):  # 200 epochs of 64 prompts, half of each step control
        found = choose(curriculum, step)
        counts.update(found[slot].prompt_id for slot in curriculum.state_dict()["control"][-1][1])
    spread = sum((counts[name] - 100) ** 2 / 50 for name in RATES)  # 200 draws with chance 1/2: variance 50
    assert sum(counts.values()) == 6400
    assert 30 < spread < 110, "chi-square, 63 degrees: 4 standard deviations are 45"


def test_it_learns_which_half_is_better_and_then_gives_up():
    curriculum = make()
    step = 0
    while curriculum.trial.mode is Mode.TRIAL and step < 60:
        teach(curriculum, step, [1, 0, 1, 0], [1, 1, 1, 1] if step % 3 else [1, 0, 0, 0])
        step += 1
    assert curriculum.trial.mode is Mode.CHOSEN
    assert step < 60
    assert curriculum.figures([])["mode"] == MODES.index(Mode.CHOSEN) == 2
    assert curriculum.figures([])["gain"] > 1.1
    while curriculum.trial.mode is Mode.CHOSEN and step < 300:
        teach(curriculum, step, [1, 1, 1, 1], [1, 0, 1, 0])
        step += 1
    assert curriculum.trial.mode is Mode.UNIFORM


def test_trained_tokens_count_by_the_cost_ratio():
    """The same groups: half of the chosen ones' cost is training, so they are worth less where that is dear."""
    found = {}
    for cost_ratio in (0.0, 8.0):
        curriculum = make(cost_ratio=cost_ratio)
        for step in range(6):
            teach(curriculum, step, [1, 0, 1, 0], [1, 1, 1, 1] if step % 2 else [1, 0, 0, 0])
        found[cost_ratio] = curriculum.trial.ratio(cost_ratio)
    assert found[0.0] == pytest.approx(1 / (0.75 * found_share(0)), rel=1e-9)
    assert found[8.0] < 0.65 * found[0.0]


def found_share(first):
    """Faded share of steps 0 to 5 whose control had a signal, where every second one has, from ``first`` on."""
    weights = [0.98 ** (5 - step) for step in range(6)]
    return sum(weights[first::2]) / sum(weights)


def test_a_group_that_lacks_a_response_is_no_other_sampler():
    curriculum = make()
    choose(curriculum)
    pool = make_pool([1, 0, 1], slot=0)
    pool.num_drawn, pool.rule = 4, FixedRule(4).capped(3)
    curriculum.observe([pool])
    assert curriculum.state_dict()["group_size"] == 4


def test_other_samplers_are_refused():
    curriculum = make()
    choose(curriculum)
    pool = make_pool([1, 0], slot=0)
    pool.rule = QuotaRule(1, 1, 4, 8)
    with pytest.raises(ValueError, match="groups of one fixed size; use sampler=uniform"):
        curriculum.observe([pool])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0.0}, "alpha must be above 0 and below 1; got 0"),
        ({"alpha": 1.0}, "alpha must be above 0 and below 1; got 1"),
        ({"cost_ratio": -1.0}, "cost_ratio must be 0 or more and finite, or null to measure it; got -1"),
        ({"cost_ratio": float("inf")}, "cost_ratio must be 0 or more"),
        ({"revisit_ratio": 0.1}, "Use curriculum.revisit_ratio=0"),
        ({"candidate_ratio": 1.0}, "candidate_ratio must be at least 2"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


def test_a_step_with_nothing_to_choose_is_refused():
    with pytest.raises(ValueError, match="needs at least 2 of them; got 1"):
        make().check_prompts(prompts(64), 1)
    with pytest.raises(ValueError, match="there are 8 training prompts, and a step takes 8"):
        make().check_prompts(prompts(8), 8)
    with pytest.raises(ValueError, match="there are 3 training prompts"):
        Core("auto", prompts={name: name for name in "abc"}).choose(3)
    make().check_prompts(prompts(9), 8)


def test_the_cost_ratio_follows_the_clocks_in_steps_that_do_not_flicker():
    clock = CostClock()
    told = {"generated": 100.0, "trained": 50.0, "rollout_s": 1.0}
    for number in range(3):
        clock.add(**told, update_s=2.0)
        assert clock.cost_ratio == 1.0, number
    clock.add(**told, update_s=2.0)
    assert clock.cost_ratio == 1.0, "said once"
    clock.add(**told, update_s=2.0)
    assert clock.cost_ratio == pytest.approx(4.0)
    for _ in range(7):
        clock.add(**told, update_s=9.0)
    clock.add(generated=100.0, trained=0.0, rollout_s=1.0, update_s=0.0)
    assert clock.cost_ratio == pytest.approx(4.0) or clock.cost_ratio == pytest.approx(18.0, rel=0.2)
    again = CostClock()
    again.load_state_dict(json.loads(json.dumps(clock.state_dict())))
    assert again.state_dict() == clock.state_dict()


def run(core, steps):
    """Steps of a loop of one's own: names are the pass rates; returns the prompts of each."""
    chosen = []
    for _ in range(steps):
        pools = core.choose(num_prompts=8)
        chosen.append([pool.prompt_id for pool in pools])
        for pool in pools:
            rate = RATES[pool.prompt_id]
            while indices := pool.launch(pool.want()):
                for index in indices:
                    is_right = random.Random(f"{core.step}/{pool.prompt_id}/{index}").random() < rate
                    pool.add(index, reward=float(is_right), num_tokens=5, payload=None)
        core.tell(pools, seconds=(1.0, 0.5))
    return chosen


def core():
    texts = {name: f"even number {name}" if name in EVEN else f"plain text {name}" for name in RATES}
    return Core("auto", prompts=texts, seed=1)


def test_a_loop_of_ones_own_goes_on_exactly_in_the_middle_of_a_decision():
    whole = core()
    chosen = run(whole, 40)
    first = core()
    begun = run(first, 4)
    state = json.loads(json.dumps(first.state_dict()))
    assert state["curriculum"]["trial"]["mode"] == "trial", "in the middle"
    second = core()
    second.load_state_dict(state)
    assert begun + run(second, 36) == chosen
    assert second.state_dict() == whole.state_dict()
    assert whole.state_dict()["curriculum"]["trial"]["mode"] == "chosen", "words tell"
    assert whole.state_dict()["curriculum"]["clock"]["cost_ratio"] != 1.0, "from the seconds told"


def test_a_change_is_one_sentence():
    figures = {"curriculum/mode": 1.0, "curriculum/ratio": 1.31, "curriculum/cost_ratio": 1.4142}
    chosen, uniform = figures | {"curriculum/mode": 2.0}, figures | {"curriculum/mode": 0.0, "curriculum/ratio": 0.7}
    assert sentence_of_change(figures, figures) == ""
    assert sentence_of_change({}, figures) == ""
    assert "most prompts are chosen (lately 1.31 times" in sentence_of_change(figures, chosen)
    assert "uniform order (lately 0.70 times" in sentence_of_change(chosen, uniform)
    assert "a new trial" in sentence_of_change(uniform, figures)


def test_the_statement_says_what_decides():
    assert "while a trial says that this pays (alpha = 0.05)" in make().caveat()
    assert "at most 5 times as often" in make().caveat()


def test_beliefs_below_a_half_say_which_class_is_rarer():
    curriculum = make()
    choose(curriculum)
    pool = make_pool([1, 0, 0, 0], slot=curriculum.state_dict()["control"][0][1][0])
    pool.rule, pool.belief = FixedRule(4), Belief(1, 9, is_seen=True)
    curriculum.note_costs(StepCosts({pool.slot: 8}))
    curriculum.observe([pool])
    assert curriculum.figures([])["worth_rarer_class"] == pytest.approx(0.25 / (1 + 1.0 * 0.25))
