"""One core behind another trainer: the steps of the project's own loop, in any order; what is late, lost or dropped."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from ada_lightning.adapters import Brain, Core
from ada_lightning.config.problems import ConfigError
from ada_lightning.core.protocols import Advantage
from tests.tapes import world
from tests.unit.adapters.conformance import COMBINATIONS, PROMPTS, WITH_OBJECTIVE, Played, assert_same, outcome, truth

STEP = {"num_prompts": world.PROMPTS_PER_STEP, "max_tokens": world.MAX_NEW_TOKENS, "seed": world.RUN_SEED}


def brain_of(rule="grpo", objective="log", **options):
    chosen = {"objective": objective} if rule in WITH_OBJECTIVE else {}
    return Brain(rule, PROMPTS, **STEP | chosen | options)


def results_of(handout):
    """What the scripted policy and its grader say; the version is the step's, as in the project's own loop."""
    return {
        index: outcome(handout.prompt_id, seed, handout.step, graded=False) | {"payload": index}
        for index, seed in zip(handout.indices, handout.seeds, strict=True)
    }


def played(finished):
    weights = {f"{row.slot}/{row.payload}": row.weight for row in finished.rows}
    return Played(list(finished.prompt_ids), list(finished.num_drawn), weights)


def drive(brain, num_steps=world.NUM_STEPS, *, most=0, order=5, version=None):
    """An asynchronous trainer: asks for more whenever it has room, and results come in any order."""
    steps, flying, order = [], [], random.Random(order)
    while len(steps) < num_steps:
        while (handout := brain.hand_out(most=most)) is not None:
            flying += [(handout, index) for index in handout.indices]
        handout, index = flying.pop(order.randrange(len(flying)))
        brain.add(handout.step, handout.slot, {index: results_of(handout)[index]}, version=version)
        while (finished := brain.finish(version=None if version is None else version + 2)) is not None:
            steps.append(finished)
    return steps[:num_steps]


def test_a_complete_prompt_is_weighed_before_the_step_is_complete(monkeypatch):
    weigh, asked = Advantage.weigh, []
    monkeypatch.setattr(Advantage, "weigh", lambda self, groups: asked.extend(groups) or weigh(self, groups))
    brain = brain_of("ada")
    for number, handout in enumerate(brain.choose(), start=1):
        brain.add(handout.step, handout.slot, results_of(handout))
        assert len(asked) == number
    brain.finish()
    assert len(asked) == world.PROMPTS_PER_STEP


@pytest.mark.parametrize(("rule", "objective"), COMBINATIONS)
@pytest.mark.parametrize("how", ["a step at a time", "driven", "driven in small handouts"])
def test_steps_are_those_of_the_projects_own_loop(rule, objective, how):
    brain = brain_of(rule, objective)
    if how == "a step at a time":
        steps = []
        for _ in range(world.NUM_STEPS):
            wanted = brain.choose()
            while not brain.is_whole:
                for handout in wanted[::-1]:
                    brain.add(handout.step, handout.slot, results_of(handout))
                again = [brain.hand_out(handout.step, slot) for slot in range(world.PROMPTS_PER_STEP)]
                wanted = [handout for handout in again if handout is not None]
            steps.append(brain.finish())
    else:
        steps = drive(brain, most=0 if how == "driven" else 2)
    assert_same([played(step) for step in steps], truth(rule, objective))
    assert [step.step for step in steps] == list(range(world.NUM_STEPS))


@pytest.mark.parametrize("rule", ["ada", "ada_seq_balance", "ada_est_ema"])
def test_with_steps_open_at_once_rows_come_by_step_and_whole(rule):
    brain = brain_of(rule, open_steps=3)
    steps = drive(brain, 6, version=4)
    assert [step.step for step in steps] == list(range(6))
    assert all(len(step.prompt_ids) == world.PROMPTS_PER_STEP for step in steps)
    assert {step.figures["lag_max"] for step in steps if step.rows} == {2.0}
    alone = Core(rule, PROMPTS, seed=world.RUN_SEED)  # the first step knows as much as any first step
    assert steps[0].prompt_ids == tuple(alone.pick(world.PROMPTS_PER_STEP))
    assert "up to 3 steps are open at once" in brain.statement()
    assert "(approximate)" in brain.statement()


def test_what_was_told_of_open_steps_is_learned_in_their_order():
    """So two trainers whose steps finish in other orders have learned the same once both are told."""
    states = []
    for first in (0, 1):
        brain = brain_of("ada", open_steps=2)
        handouts = [brain.choose(), brain.choose()]
        for step in (first, 1 - first):
            for handout in handouts[step]:
                brain.add(handout.step, handout.slot, results_of(handout))
        assert [brain.finish().step, brain.finish().step] == [0, 1]
        states.append(brain.state_dict())
    assert states[0] == states[1]


def test_late_and_repeated_results_are_not_counted_twice():
    brain = brain_of(open_steps=1)
    handouts = brain.choose()
    results = [results_of(handout) for handout in handouts]
    for handout, told in zip(handouts, results, strict=True):
        assert brain.add(handout.step, handout.slot, told) == len(told)
        assert brain.add(handout.step, handout.slot, told) == 0
        assert brain.add(handout.step, handout.slot, {99: {"reward": 1.0, "num_tokens": 1}}) == 0
    finished, state = brain.finish(), brain.state_dict()
    assert finished.figures["late"] == sum(map(len, results)) + len(handouts)
    assert finished.figures["responses"] == sum(map(len, results))
    assert brain.add(handouts[0].step, handouts[0].slot, results[0]) == 0  # its step is over
    assert brain.state_dict() == state
    assert brain.finish() is None


def test_a_result_without_a_reward_is_refused_and_the_others_count():
    brain = brain_of()
    handout = brain.choose()[0]
    told = results_of(handout) | {handout.indices[1]: {"num_tokens": 1}}
    with pytest.raises(ValueError, match=r"response 1 of prompt p\d+ needs a finite reward"):
        brain.add(handout.step, handout.slot, told)
    assert brain.give_up("timeout", handout.step, handout.slot) == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"reward": 1.0, "num_tokens": 1, "is_truncated": "length"}, "is_truncated must be True or False"),
        ({"reward": 1.0}, r"response 1 of prompt p\d+: .*num_tokens"),
        ({"reward": 1.0, "num_tokens": 1, "length": 1}, r"response 1 of prompt p\d+: .*length"),
        (1.0, r"response 1 of prompt p\d+: .*mapping"),
    ],
)
def test_a_result_of_the_wrong_kind_is_refused_and_the_others_count(wrong, said):
    brain = brain_of()
    handout = brain.choose()[0]
    right = results_of(handout)
    with pytest.raises(ValueError, match=said):
        brain.add(handout.step, handout.slot, right | {1: wrong})
    assert brain.add(handout.step, handout.slot, right) == 1


def test_a_version_is_a_whole_number():
    brain = brain_of()
    handout = brain.choose()[0]
    with pytest.raises(ValueError, match="version must be the whole number of a policy version, or None; got '3'"):
        brain.add(handout.step, handout.slot, results_of(handout), version="3")
    assert brain.add(handout.step, handout.slot, results_of(handout), version=3) == len(handout.indices)


def test_what_never_comes_back_is_ungraded_and_named():
    brain = brain_of()
    handouts = brain.choose()
    for handout in handouts[1:]:
        brain.add(handout.step, handout.slot, results_of(handout))
    assert not brain.is_whole
    assert brain.finish() is None
    assert brain.give_up("timeout") == len(handouts[0].indices)
    others = sum("timeout" in told["failed"] for handout in handouts[1:] for told in results_of(handout).values())
    finished = brain.finish()
    assert finished.figures["ungraded/timeout"] == len(handouts[0].indices) + others
    assert not any(row.slot == 0 for row in finished.rows)
    # The rest is as it would have been: the denominator counts the prompts that were asked.
    (first, *_) = truth("grpo")
    assert played(finished).weights == pytest.approx({k: w for k, w in first.weights.items() if k[:2] != "0/"})


def test_what_the_trainer_drops_is_named_and_outlives_a_restart():
    brain = brain_of()
    (first,) = drive(brain, 1)
    assert "(exact)" in brain.statement("verl")
    brain.drop("stale", first.rows[:2])
    brain.drop("stale", np.int64(1))
    said = f"approximate: 3 of {len(first.rows)} rows did not train (stale); long responses are dropped first"
    assert said in brain.statement()
    again = brain_of()
    again.load_state_dict(json.loads(json.dumps(brain.state_dict())))
    assert said in again.statement()
    assert drive(brain, 1)[0].figures["dropped/stale"] == 3
    assert "dropped/stale" not in drive(brain, 1)[0].figures


@pytest.mark.parametrize(("rule", "open_steps"), [("ada", 1), ("ada_seq_balance", 1), ("ada_est_ema", 1), ("ada", 3)])
def test_a_run_that_goes_on_from_any_state_draws_what_it_would_have_drawn(rule, open_steps):
    brain = brain_of(rule, open_steps=open_steps)
    drive(brain, 2)
    for handout in (brain.hand_out(most=1) for _ in range(3)):  # in the middle of a step
        brain.add(handout.step, handout.slot, results_of(handout)) if handout else None
    state = json.loads(json.dumps(brain.state_dict()))
    again = brain_of(rule, open_steps=open_steps)
    again.load_state_dict(state)
    brain.abandon()
    one, other = drive(again, 3, order=1), drive(brain, 3, order=1)
    assert [played(step) for step in one] == [played(step) for step in other]


def test_a_state_of_other_settings_or_not_whole_is_refused():
    state = brain_of().state_dict()
    with pytest.raises(ValueError, match=r"sampler.group_size: 4 -> 2; give the old values again"):
        brain_of(group_size=2).load_state_dict(state)
    with pytest.warns(RuntimeWarning, match=r"sampler.group_size: 4 -> 2"):
        brain_of(group_size=2).load_state_dict(state, allow_changes=True)
    for wrong, said in ((json.dumps(state), "the state is a str"), ({"core": state["core"]}, "lacks dropped, rows")):
        with pytest.raises(ValueError, match=said):
            brain_of().load_state_dict(wrong)


def test_a_checkpoint_before_the_last_update_knows_nothing_of_the_step():
    brain = brain_of("ada")
    for handout in brain.choose():
        brain.add(handout.step, handout.slot, results_of(handout))
    before = brain.state_dict()
    first, again = brain.finish(learn=False), brain.finish(learn=False)
    assert (first.rows, brain.state_dict()) == (again.rows, before)
    brain.learn()
    assert brain.step == 1
    with pytest.raises(RuntimeError, match="step 1 is not whole"):
        brain.learn()


def test_a_step_that_fills_up_needs_a_trainer_that_hands_out_any_prompt():
    with pytest.raises(ConfigError, match="lets further prompts join a step, which slow does not give"):
        brain_of(refill="dynamic", trainer="slow")
    with pytest.raises(ConfigError, match="ends before the next is known; use open_steps=1"):
        brain_of(refill="dynamic", can_refill=True, open_steps=2)
    (step,) = drive(brain_of(refill="dynamic", can_refill=True), 1)
    assert len(step.prompt_ids) > world.PROMPTS_PER_STEP


@pytest.mark.parametrize("wrong", [0, 1.5, True, "2", None, float("nan")])
@pytest.mark.parametrize("name", ["num_prompts", "max_tokens", "open_steps"])
def test_numbers_below_one_and_none_at_all_are_refused(name, wrong):
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1; got"):
        brain_of(**{name: wrong})


def test_more_steps_than_may_be_open_are_refused_and_unknown_prompts_too():
    brain = brain_of()
    brain.choose()
    with pytest.raises(RuntimeError, match="step 0 is under way"):
        brain.choose()
    with pytest.raises(ValueError, match="no prompt 99 in an open step 0; open steps: 0"):
        brain.hand_out(0, 99)


def test_what_nobody_can_draw_any_more_is_given_up_for_good():
    """A rule that misses responses wants others in their place; here there is no one to draw them."""
    brain = brain_of("ada_seq_balance")
    handouts = brain.choose()
    for handout in handouts[1:]:
        brain.add(handout.step, handout.slot, results_of(handout))
    assert brain.waiting(0)[0, 0] == list(handouts[0].indices)
    assert not brain.is_done(0, 0)
    assert brain.give_up("timeout", 0, 0, for_good=True) > len(handouts[0].indices)
    assert brain.is_done(0, 0)
    assert (0, 0) not in brain.waiting()
    brain.give_up("timeout", for_good=True)
    finished = brain.finish()
    assert not any(row.slot == 0 for row in finished.rows)
    assert brain.is_done(0, 0)  # of a step that is over
    assert brain.hand_out(0, 0) is None


def test_a_long_response_takes_no_room():
    brain = Brain("grpo", ["a"], num_prompts=1, max_tokens=8, group_size=2)
    (handout,) = brain.choose()
    brain.add(0, 0, {index: {"reward": float(index), "num_tokens": 10**12} for index in handout.indices})
    assert brain.finish().figures["tokens"] == 2e12
