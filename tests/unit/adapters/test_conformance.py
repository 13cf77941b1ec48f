"""The conformance suite: five rules, three objectives, any order of finishing, every adapter."""

from __future__ import annotations

import json

import pytest

from ada_lightning.adapters import Core
from ada_lightning.config.problems import ConfigError
from ada_lightning.methods.find import recipe_names
from tests.tapes import world
from tests.tapes.cases import GRADED_ONLY, TWEAKS
from tests.unit.adapters import conformance
from tests.unit.adapters.conformance import (
    COMBINATIONS,
    ORDERS,
    PROMPTS,
    RULES,
    WITH_OBJECTIVE,
    assert_same,
    play_core,
    truth,
)

ASKS_THE_POLICY = {"ada_est_value", "dpo", "gvm_grpo", "gvm_raft", "ipo", "representation_preference"}
ASKS_THE_POLICY |= {"reward_distillation", "vip", "vip_dr_grpo"}
NEEDS_DEMONSTRATIONS = {"inverse_rl"}
OFF_POLICY = {"spo"}
IS_A_LOSS = {"capo", "cispo", "divergence_ppo_kl", "divergence_ppo_tv", "flowrl", "gspo", "jackpot"}
TAPES = sorted(
    {name for name in recipe_names() if "/" not in name}
    - ASKS_THE_POLICY
    - NEEDS_DEMONSTRATIONS
    - IS_A_LOSS
    - OFF_POLICY
    - GRADED_ONLY
    - {"rollout_bandits"}
)


def core_of(rule: str, objective: str = "log") -> Core:
    choice = {"objective": objective} if rule in WITH_OBJECTIVE else {}
    return Core(rule, prompts=PROMPTS, seed=0, **choice)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("rule", "objective"), COMBINATIONS)
def test_own_loop(rule, objective, order):
    assert_same(play_core(core_of(rule, objective), order), truth(rule, objective))


@pytest.mark.parametrize("rule", RULES)
def test_a_core_from_a_state_goes_on_as_the_one_it_was_taken_from(rule):
    whole = core_of(rule)
    first = play_core(whole, "in order", num_steps=2)
    state = json.dumps(whole.state_dict(), allow_nan=False)
    resumed = core_of(rule)
    resumed.load_state_dict(json.loads(state))
    assert json.dumps(resumed.state_dict(), allow_nan=False) == state
    assert_same([*first, *play_core(resumed, "shuffled", num_steps=2)], truth(rule))


@pytest.mark.thinned(14)
@pytest.mark.parametrize("name", TAPES)
def test_every_experiment_that_is_taken_does_what_its_tape_says(name):
    overrides = {key: json.loads(value) for key, value in (text.split("=") for text in TWEAKS.get(name, ()))}
    state = None
    played = []
    for _ in range(world.NUM_STEPS):  # through a state after each step
        core = Core(name, prompts=PROMPTS, seed=world.RUN_SEED, **overrides)
        if state is not None:
            core.load_state_dict(json.loads(state))
        played += play_core(core, "shuffled", num_steps=1)
        state = json.dumps(core.state_dict(), allow_nan=False)
    assert_same(played, conformance.of_tape(name))


@pytest.mark.parametrize("name", sorted(ASKS_THE_POLICY | IS_A_LOSS))
def test_what_asks_the_policy_or_is_a_loss_is_refused_by_a_sentence(name):
    reason = "a loop of your own does not hand over" if name in ASKS_THE_POLICY else "do this part in your own update"
    with pytest.raises(ConfigError, match=reason):
        Core(name, prompts=PROMPTS)


@pytest.mark.parametrize("name", sorted(OFF_POLICY))
def test_what_updates_several_times_with_a_rollout_is_refused_by_a_sentence(name):
    with pytest.raises(ConfigError, match="updates of each rollout, all but the first of them off-policy"):
        Core(name, prompts=PROMPTS)
