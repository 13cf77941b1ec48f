"""The library's contract: what it refuses, what order changes nothing, what its reductions and its state are."""

from __future__ import annotations

import json
import math
import random
import re
import tracemalloc

import numpy as np
import pytest
import torch

from ada_lightning.adapters import Core, Pools
from ada_lightning.config.problems import ConfigError
from ada_lightning.core.options import use
from ada_lightning.core.protocols import StepCosts
from ada_lightning.methods.curriculum.auto import AutoCurriculum
from ada_lightning.methods.estimators import BetaHistory, EmaEstimator
from ada_lightning.methods.find import find_recipe, recipe_names
from ada_lightning.methods.hints import PrefixHints
from ada_lightning.methods.recipes import GRPO
from ada_lightning.methods.sampling import BalanceSampler, GiveUpByPosterior, UniformSampler
from tests.unit.adapters.conformance import PROMPTS, drive, play_core

IDS = list("abcdef")
SOLUTIONS = dict.fromkeys("abcdefgh", "2 * 3 = 6\n6 + 1 = 7\n#### 7")
CGRPO = {"sampler": "cgrpo", "group_size": 4}


def begun(method: str = "grpo", **overrides) -> tuple[Core, Pools]:
    core = Core(method, prompts=IDS, seed=1, **overrides)
    return core, core.choose(num_prompts=2)


def fill(pools: Pools, reward=lambda pool, index: float(index % 2)) -> None:
    while not pools.is_complete:
        for pool in pools:
            for index in pool.launch(pool.want()):
                told = {"payload": (pool.prompt_id, index), "answer": str(index % 2)}
                pool.add(index, reward(pool, index), num_tokens=3 + index, **told)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"n_maxx": 8}, "did you mean n_max"),
        ({"N_MAX": 8}, "did you mean n_max"),
        ({"n_max": 7}, "does not divide"),
        ({"data.num_minibatches": 2}, "has no effect here"),
        ({"loss": "gspo"}, "has no effect|unknown key"),
        ({"sampler": "positve"}, "positve"),
        ({"objective": "power", "advantage": "grpo"}, "objective"),
        ({"estimator.memory": 3}, "must be in"),
        ({"rollout.truncated": "drop"}, "truncated"),
        ({"rollout.engine": 1}, "has no effect here"),
        ({"group_size": "many"}, "whole number"),
        ({"group_size": object()}, "sampler.group_size is of type object"),
        ({"group_size": "${sampler.group_size}"}, "sampler.group_size: its value refers to itself"),
        ({"sampler.n_max.x": 1}, "no sampler.n_max.x: n_max is 32 and has no keys"),
        ({"rollout.positive_threshold": "high"}, "positive_threshold must be a number; got 'high'"),
        ({"sampler": UniformSampler()}, r"sampler=UniformSampler\(group_size=4\) is not a sampler: give a class"),
        ({"sampler": BetaHistory}, "BetaHistory is no sampler: it is estimator=beta_history"),
        ({"refill": None}, "refill=None is not a refill: give a class"),
        ({"sampler/gradient_norm": "constant"}, "gradient_norm=constant has no effect: sampler=balance has no such"),
        (
            {"selection": "seen", "estimator": "gaussian_process", "estimator/embedding": "words"},
            "every visit would count",
        ),
    ],
)
def test_what_cannot_work_or_has_no_effect_is_refused(overrides, said):
    with pytest.raises(ValueError, match=said):
        Core("ada_seq_balance", prompts=IDS, **overrides)


def test_a_setting_of_a_recipe_for_a_part_that_nothing_has_is_refused():
    with pytest.raises(ConfigError, match="grpo sets estmator, which does not exist; did you mean estimator"):
        Core(GRPO.with_(**{"estmator.memory": 0.5}), IDS)


@pytest.mark.parametrize("name", [name for name in recipe_names() if find_recipe(name).builds_on])
def test_what_builds_on_a_file_for_whole_runs_is_refused(name):
    """It has several updates of each rollout and a term for the entropy, and grades otherwise."""
    with pytest.raises(ConfigError, match=f"{name} builds on /paper/base"):
        Core(name, IDS)


def test_a_word_keeps_what_the_recipe_sets_of_a_part_and_a_class_stands_for_itself():
    """As ``+experiment=mopps estimator=ema`` does."""
    settings = {"word": "ema", "class": EmaEstimator, "use": use(EmaEstimator, decay=0.7)}
    decays = {how: Core("mopps", IDS, estimator=each)._method.estimator.decay for how, each in settings.items()}
    assert decays == {"word": 0.5, "class": 0.9, "use": 0.7}


def test_a_part_within_a_part_is_given_by_use():
    core = Core("grpo", IDS, sampler=use(BalanceSampler, give_up=use(GiveUpByPosterior, price=0.5)))
    assert core._method.sampler.give_up.price == 0.5
    core = Core("ada_seq_balance", IDS, **{"sampler.give_up": use(GiveUpByPosterior, price=0.5)})
    assert core._method.sampler.give_up.price == 0.5


def test_a_method_is_a_recipe_or_a_name():
    with pytest.raises(TypeError, match="the method is 3: give a recipe"):
        Core(3, IDS)


def test_an_unknown_method_gets_the_nearest_name():
    with pytest.raises(ConfigError, match="did you mean ada_seq_balance"):
        Core("ada_seq_balanced", prompts=IDS)


@pytest.mark.parametrize(("prompts", "said"), [([], "no prompts"), (["a", "b", "a"], "'a' is there twice")])
def test_prompts_have_ids_of_their_own(prompts, said):
    with pytest.raises(ValueError, match=said):
        Core("grpo", prompts=prompts)


def test_methods_that_read_prompts_need_their_texts():
    with pytest.raises(ValueError, match=r"\{id: text\}"):
        Core("grpo_chosen", prompts=IDS)
    assert Core("grpo_chosen", prompts=PROMPTS).choose(num_prompts=3)


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ({"group_size": 3}, 3),
        ({"sampler": "estimated", "responses_per_prompt": 4, "n_max": 5}, 5),
        ({"sampler": "first_visit", "group_size": 2, "num_first": 5, "estimator": "beta_history"}, 5),
        ({"sampler": "speed", "num_screen": 2, "num_continue": 3, "group_size": 5}, 5),
        ({"sampler": "cgrpo", "budgets": [2, 6], "group_size": 4}, 6),
    ],
)
def test_a_bare_name_is_the_samplers_own_setting(overrides, wanted):
    core = Core("grpo", prompts=IDS, **overrides)
    assert core.max_kept == wanted


def test_misuse_of_a_pool_is_refused():
    _, pools = begun(group_size=2)
    pool = pools[0]
    with pytest.raises(ValueError, match="wants 2 responses now"):
        pool.launch(3)
    with pytest.raises(ValueError, match="was not launched"):
        pool.add(0, 1.0, num_tokens=1)
    pool.launch(2)
    for wrong in ({"reward": None}, {"reward": math.nan}, {"reward": 1.0, "failed": "infrastructure"}):
        with pytest.raises(ValueError, match="response 0 of prompt"):
            pool.add(0, num_tokens=1, **wrong)
    with pytest.raises(ValueError, match=r"at least 0, as len\(token_ids\); got -1"):
        pool.add(0, 1.0, num_tokens=-1)
    pool.add(0, 1.0, num_tokens=1)
    with pytest.raises(ValueError, match="was added before"):
        pool.add(0, 1.0, num_tokens=1)
    assert (pool.num_open, pool.want()) == (1, 0)
    with pytest.raises(RuntimeError, match="open pools"):
        pool.kept()


def test_steps_come_one_after_another():
    core, pools = begun()
    for call in (lambda: core.choose(2), core.begin, core.state_dict):
        with pytest.raises(RuntimeError, match="under way"):
            call()
    with pytest.raises(RuntimeError, match="open pools"):
        core.tell(pools)
    fill(pools)
    with pytest.raises(ValueError, match="nothing of this method reads metrics"):
        core.tell(pools, metrics={"loss": 1.0})
    core.tell(pools)
    with pytest.raises(ValueError, match="do not belong to the step"):
        core.tell(pools)
    with pytest.raises(ValueError, match="the same in all steps"):
        core.choose(num_prompts=3)


def test_an_abandoned_step_is_drawn_again_as_it_was():
    core, pools = begun("ada_seq_pos")
    seeds = [(pool.prompt_id, pool.seed(index)) for pool in pools for index in pool.launch(pool.want())]
    core.abandon()
    again = core.choose(num_prompts=2)
    assert seeds == [(pool.prompt_id, pool.seed(index)) for pool in again for index in pool.launch(pool.want())]


def test_what_failed_through_no_doing_of_its_own_is_left_out():
    core, pools = begun("ada_seq_pos", k_pos=1, samples_per_round=2, n_max=4)
    pool = pools[0]
    first, second = pool.launch(2)
    pool.add(second, 1.0, num_tokens=2, payload="second")
    assert pool.want() == 0  # waits for the first in the order of launch
    pool.add(first, failed="infrastructure", num_tokens=0)
    fill(pools, lambda pool, index: 1.0)
    (drawn, _) = pools.pools_drawn()
    assert drawn.num_failed == 1
    assert drawn.responses[0].sample_index == second
    assert pool.num_drawn == drawn.num_sampled + 1
    core.tell(pools)


def test_a_method_that_looks_at_more_of_a_response_says_so():
    for method, what in (("xrpo", "logprobs"), ("gdpo", "components"), ("optpo", "answer")):
        _, pools = begun(method)
        (index, *_) = pools[0].launch(1)
        with pytest.raises(ValueError, match=f"looks at {what} of every response"):
            pools[0].add(index, 1.0, num_tokens=2)


def test_a_bandit_learns_from_the_figures_of_the_update():
    core, pools = begun("rollout_bandits")
    while not pools.is_complete:
        for pool in pools:
            for index in pool.launch(pool.want()):
                pool.add(index, float(index % 2), num_tokens=1, logprobs=[-1.0])
    with pytest.raises(ValueError, match="give tell\\(\\) metrics"):
        core.tell(pools)
    core.tell(pools, metrics={"rollout/reward_first_round": 0.5, "train/entropy": 1.0})
    assert core.step == 1


def test_a_step_that_is_filled_up_grows_while_it_is_walked_through():
    core = Core("grpo", prompts=[f"p{number}" for number in range(50)], seed=0, refill="dynamic", group_size=2)
    pools = core.choose(num_prompts=4)
    first = [pool.prompt_id for pool in pools]
    fill(pools, lambda pool, index: float(index % 2) if pool.slot % 3 == 0 else 0.0)
    assert len(pools) > len(first) == 4
    assert sum(bool(pool.kept()) for pool in pools) == 4
    assert core.denominator(max_tokens=10) == 40
    with pytest.raises(RuntimeError, match="takes as many prompts as it needs"):
        core.pick(4)
    core.tell(pools)
    assert not {pool.prompt_id for pool in core.choose(num_prompts=4)} & {pool.prompt_id for pool in pools}


def test_prompts_may_be_picked_a_step_ahead():
    ahead, plain = (Core("grpo", prompts=IDS, seed=2) for _ in range(2))
    ahead.pick(2)
    second = ahead.pick(2)
    for core in (ahead, plain):
        pools = core.choose(num_prompts=2)
        fill(pools)
        core.tell(pools)
    assert ahead.picked(0, 2) == IDS[:2]  # done: any will do
    assert ahead.picked(1, 2) == second
    assert [pool.prompt_id for pool in plain.choose(2)] == second == [pool.prompt_id for pool in ahead.choose(2)]
    ahead.abandon()
    with pytest.raises(ValueError, match="not the prompts that were picked"):
        ahead.begin(["a", "a"])


def test_a_step_that_is_done_costs_a_loader_no_more_than_its_own_prompts():
    core = Core("grpo", prompts=map(str, range(50_000)), seed=0, group_size=2)
    core._step = 10  # as after a resume
    tracemalloc.start()
    assert len(core.picked(3, 256)) == 256
    assert tracemalloc.get_traced_memory()[1] < 100_000  # bytes: 256 references and little else
    tracemalloc.stop()
    assert len(Core("grpo", prompts=["a", "b"], seed=0, group_size=2).picked(0, 2)) == 2


def test_a_state_with_prompts_picked_ahead_goes_on_with_them():
    core = Core("ada", prompts=PROMPTS, seed=0)
    core.pick(5)
    core.pick(5)
    pools = core.begin()
    drive(core, pools, "in order")
    core.tell(pools)
    state = json.loads(json.dumps(core.state_dict()))
    other = Core("ada", prompts=PROMPTS, seed=0)
    other.load_state_dict(state)
    assert other.picked(1, 5) == core.picked(1, 5)
    first, second = play_core(core, "in order", num_steps=3), play_core(other, "in order", num_steps=3)
    assert first == second


@pytest.mark.parametrize(
    ("method", "wrong", "said"),
    [
        ("grpo", {"reward": "1.0"}, "needs a finite reward, or failed='why'; got '1.0'"),
        ("grpo", {"reward": {"score": 1.0}}, "got {'score': 1.0}"),
        ("grpo", {"reward": np.zeros(2)}, "got array"),
        ("grpo", {"num_tokens": 1.0}, "num_tokens must be a whole number of at least 0, as len(token_ids); got 1.0"),
        ("grpo", {"num_tokens": [5]}, "got [5]"),
        ("dapo", {"components": {"right": 1.0}}, "component 'correct' of every response; components= has right; add"),
        ("gdpo", {"components": {"correct": math.nan}}, "needs a finite component correct, or failed='why'; got nan"),
        ("xrpo", {"logprobs": [math.nan]}, "a log-probability is not finite"),
        ("grpo", {"index": 0.0}, "response 0.0 of prompt c was not launched"),
        ("grpo", {"index": [0]}, "response [0] of prompt c was not launched"),
        ("grpo", {"index": False}, "response False of prompt c was not launched"),
        ("grpo", {"num_tokens": True}, "got True"),
        (
            "grpo",
            {"is_truncated": "length"},
            "is_truncated must be True or False; got 'length'; write finish_reason",
        ),
        ("grpo", {"is_truncated": None}, "is_truncated must be True or False; got None"),
        ("grpo", {"is_truncated": 1}, "is_truncated must be True or False; got 1"),
        ("grpo", {"is_truncated": np.zeros(2, dtype=bool)}, "is_truncated must be True or False; got array"),
        ("grpo", {"is_truncated": torch.zeros(2, dtype=torch.bool)}, "is_truncated must be True or False; got tensor"),
        ("grpo", {"reward": None, "failed": True}, "failed must be a text, the reason as 'infrastructure'; got True"),
        ("grpo", {"failed": None}, "leave it out where there is a reward"),
        ("grpo", {"answer": 7}, "answer must be a text, or None where there is none; got 7; write str(answer)"),
        ("optpo", {"answer": ["7"]}, "answer must be a text, or None where there is none; got ['7']"),
        ("grpo", {"components": [1.0]}, "components must be numbers by name, as {'correct': 1.0}; got [1.0]"),
        ("grpo", {"components": {1: 1.0}}, "components must be numbers by name"),
        ("grpo", {"components": {"correct": "1"}}, "needs a finite component correct, or failed='why'; got '1'"),
        ("grpo", {"logprobs": None}, "logprobs must be numbers, one for each token; got None"),
        ("grpo", {"logprobs": "-0.5"}, "logprobs must be numbers, one for each token; got '-0.5'"),
        ("grpo", {"logprobs": [None]}, "logprobs must be numbers, one for each token; got [None]"),
        ("xrpo", {"logprobs": -0.5}, "logprobs must be numbers, one for each token; got -0.5"),
        ("grpo", {"logprobs": torch.zeros(2, 2)}, "logprobs must be numbers, one for each token; got tensor"),
    ],
)
def test_a_result_of_the_wrong_kind_is_refused_and_the_right_one_may_follow(method, wrong, said):
    _, pools = begun(method)
    told = {"reward": np.float32(1.0), "num_tokens": np.int64(1), "logprobs": np.zeros(1), "components": {}}
    told |= {"answer": None, "is_truncated": np.bool_(True)}
    pool = pools[0]
    (index,) = pool.launch(1)
    with pytest.raises(ValueError, match=re.escape(said)):
        pool.add(**({"index": index} | told | wrong))
    pool.add(index, **told)
    assert pool.num_open == 0


@pytest.mark.parametrize("wrong", [{"reward": "1.0"}, {"reward": math.nan}, {"components": {"correct": "1"}}])
def test_a_reward_that_no_grader_is_asked_for_may_be_left_out_but_not_wrong(wrong):
    _, pools = begun("grpo", **{"rollout.truncated": "zero"})
    pool = pools[0]
    (index,) = pool.launch(1)
    with pytest.raises(ValueError, match="needs a finite"):
        pool.add(index, num_tokens=1, is_truncated=True, **wrong)
    pool.add(index, num_tokens=1, is_truncated=True)
    assert pool.num_open == 0


@pytest.mark.parametrize("kind", [bool, np.bool_, np.array, torch.tensor])
def test_truth_values_of_any_library_count_alike(kind):
    _, pools = begun("grpo", group_size=2)
    pool = pools[0]
    first, second = pool.launch(2)
    pool.add(first, 1.0, num_tokens=3, is_truncated=kind(True))
    pool.add(second, 1.0, num_tokens=3, is_truncated=kind(False))
    assert pools.step.stats.num_truncated == 1
    told = pools.step.outcomes(0).values()
    assert [outcome.is_truncated for outcome in told] == [True, False]
    assert {type(outcome.is_truncated) for outcome in told} == {bool}


@pytest.mark.parametrize(
    "metrics",
    [
        {"rollout/reward_first_round": [0.5], "train/entropy": 1.0},
        {"rollout/reward_first_round": 0.5, "train/entropy": math.nan},
        ["train/entropy"],
    ],
)
def test_figures_of_the_wrong_kind_are_refused_before_anything_is_learned(metrics):
    core, pools = begun("rollout_bandits")
    while not pools.is_complete:
        for pool in pools:
            for index in pool.launch(pool.want()):
                pool.add(index, float(index % 2), num_tokens=1, logprobs=[-1.0])
    before = core.state_dict(between_steps=False)
    with pytest.raises(ValueError, match="metrics must be finite numbers by name; got"):
        core.tell(pools, metrics=metrics)
    assert core.state_dict(between_steps=False) == before
    core.tell(pools, metrics={"rollout/reward_first_round": np.float32(0.5), "train/entropy": torch.tensor(1.0)})
    json.dumps(core.state_dict())


@pytest.mark.parametrize("seconds", [(math.nan, 1.0), (1.0, math.inf), (-1.0, 1.0), (1.0,), 2.0])
def test_seconds_that_no_clock_says_are_refused_before_anything_is_learned(seconds):
    core, pools = begun()
    fill(pools)
    with pytest.raises(ValueError, match=r"seconds must be .* both finite and at least 0"):
        core.tell(pools, seconds=seconds)
    core.tell(pools, seconds=(np.float32(1.0), 0))
    assert core.step == 1


def test_auto_hears_what_a_step_trained_and_took(monkeypatch):
    heard = []
    monkeypatch.setattr(AutoCurriculum, "note_costs", lambda curriculum, costs: heard.append(costs))
    core = Core("auto", {f"p{number}": f"text {number}" for number in range(40)}, seed=1)
    pools = core.choose(8)
    fill(pools)
    core.tell(pools, seconds=(2.0, 3.0))
    trained = {pool.slot: sum(3 + row.index for row in pool.kept()) for pool in pools}
    assert set(trained.values()) != {0}
    assert heard == [StepCosts(trained, 2.0, 3.0)]


@pytest.mark.parametrize("prompts", [range(4), {"a": [{"role": "user", "content": "2 + 3?"}]}, [{"prompt": "2 + 3?"}]])
def test_ids_and_what_prompts_say_are_texts(prompts):
    with pytest.raises(ValueError, match="ids and what prompts say must be texts"):
        Core("grpo", prompts)


def test_a_number_of_prompts_from_an_array_leaves_a_state_of_plain_numbers():
    core = Core("grpo", IDS)
    with pytest.raises(ValueError, match=r"num_prompts must be a whole number of at least 1.*got 2\.0"):
        core.choose(2.0)
    core.choose(np.int64(2))
    core.abandon()
    assert json.loads(json.dumps(core.state_dict()))["num_prompts"] == 2


@pytest.mark.parametrize(
    ("method", "plain", "of_numpy"),
    [
        ("grpo", {"seed": 3}, {"seed": np.int64(3)}),
        ("grpo", {"seed": 3}, {"seed": torch.tensor(3)}),
        ("grpo", {"group_size": 2}, {"group_size": np.int64(2)}),
        ("grpo", {"open_steps": 2}, {"open_steps": np.int64(2)}),
        ("grpo", {"rollout.positive_threshold": 0.5}, {"rollout.positive_threshold": np.float32(0.5)}),
        ("ada", {"estimator.memory": 0.5}, {"estimator.memory": np.float64(0.5)}),
        (
            "grpo",
            {"sampler": use(UniformSampler, group_size=3)},
            {"sampler": use(UniformSampler, group_size=np.int8(3))},
        ),
        ("grpo", CGRPO | {"budgets": [2, 6]}, CGRPO | {"budgets": [np.int64(2), np.int64(6)]}),
        ("grpo", CGRPO | {"budgets": [2, 6]}, CGRPO | {"budgets": np.array([2, 6])}),
        (GRPO.with_(group_size=3), {}, {"group_size": np.int64(3)}),
        (GRPO.with_(group_size=np.int64(3)), {"group_size": 3}, {}),
    ],
)
def test_numbers_of_an_array_library_are_taken_as_plain_ones(method, plain, of_numpy):
    cores = [Core(method, IDS, **given) for given in (plain, of_numpy)]
    states = []
    for core in cores:
        pools = core.choose(2)
        fill(pools)
        core.tell(pools)
        states.append(json.dumps(core.state_dict()))
    assert states[0] == states[1]
    assert type(cores[1].seed) is int


@pytest.mark.parametrize("seed", [1.5, np.float64(1.0), True, np.bool_(True), "3", None, np.arange(2), -1])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(ConfigError, match=r"seed=.*(write a whole number|a seed is a whole number)"):
        Core("grpo", IDS, seed=seed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "format 2"),
        ({"prompts": "other"}, "other prompts"),
        ({"method": "auto"}, "the state is of method 'auto', and this core is 'grpo'"),
    ],
)
def test_a_state_of_something_else_is_refused(change, said):
    core = Core("grpo", prompts=IDS)
    with pytest.raises(ValueError, match=said):
        core.load_state_dict(core.state_dict() | change)


def played_one(method="grpo", prompts=IDS, **options):
    core = Core(method, prompts, **{"seed": 3} | options)
    pools = core.choose(3)
    fill(pools)
    core.tell(pools)
    return core, json.loads(json.dumps(core.state_dict()))


TEXTS = {f"p{number}": f"add {number} and {number + 1}" for number in range(12)}
OTHER_TEXTS = {prompt_id: text.replace("add", "multiply") for prompt_id, text in TEXTS.items()}
HINTS = {"prompts": list("abcdefgh"), "hints": use(PrefixHints, p_min=0.5), "group_size": 4}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {"seed": 4}, "seed: 3 -> 4"),
        ({}, {"group_size": 8}, "sampler.group_size: 4 -> 8"),
        ({}, {"rollout.truncated": "mask"}, "rollout.truncated: 'grade' -> 'mask'"),
        ({}, {"loss/reduction": "token_mean"}, "loss.reduction: 'constant' -> 'token_mean'"),
        ({}, {"advantage": "rloo"}, "advantage: GroupNormalizedAdvantage -> LeaveOneOutAdvantage"),
        ({}, {"estimator": "ema"}, "estimator: BetaHistory -> EmaEstimator"),
        ({}, {"seed": 4, "group_size": 8}, "seed: 3 -> 4; sampler.group_size: 4 -> 8"),
        (
            {"method": "ada_seq_balance"},
            {"sampler.give_up": use(GiveUpByPosterior, price=0.5)},
            "sampler.give_up: NeverGiveUp -> GiveUpByPosterior",
        ),
        (
            {"method": "ada_seq_balance", "sampler.give_up": use(GiveUpByPosterior, price=0.25)},
            {"sampler.give_up": use(GiveUpByPosterior, price=0.5)},
            "sampler.give_up.price: 0.25 -> 0.5",
        ),
        ({"method": "grpo_chosen", "prompts": TEXTS}, {"prompts": OTHER_TEXTS}, "the texts of prompts"),
        (
            HINTS | {"solutions": SOLUTIONS},
            {"solutions": SOLUTIONS | {"a": "1 + 1 = 2\n2 + 2 = 4\n#### 4"}},
            "the solutions of prompts",
        ),
    ],
)
@pytest.mark.parametrize("by_environment", [False, True])
def test_a_state_of_other_settings_is_refused_and_may_be_taken_all_the_same(
    before, after, said, by_environment, monkeypatch
):
    _, state = played_one(**before)
    other = Core(**{"method": "grpo", "prompts": IDS, "seed": 3} | before | after)
    fresh = other.state_dict()
    way_out = (
        "give the old values again, or go on with the new ones by load_state_dict(state, allow_changes=True), or "
        "ADA_LIGHTNING_ALLOW_CHANGES=1 in the environment of a trainer that loads the state itself"
    )
    with pytest.raises(ValueError, match=re.escape(f"other settings than the state's: {said}; {way_out}")):
        other.load_state_dict(state)
    assert other.state_dict() == fresh
    if "estimator" not in after:  # what one estimator remembers no other can read
        if by_environment:
            monkeypatch.setenv("ADA_LIGHTNING_ALLOW_CHANGES", "1")
        with pytest.warns(RuntimeWarning, match=re.escape(f"goes on with other settings than the state's: {said}")):
            other.load_state_dict(state, allow_changes=not by_environment)
        assert other.step == 1
        fill(other.choose(3))


def test_what_nothing_reads_may_change_at_a_resume():
    _, state = played_one(prompts=TEXTS)
    other = Core("grpo", OTHER_TEXTS, seed=np.int64(3), open_steps=2)
    other.load_state_dict(state)
    assert other.step == 1


@pytest.mark.parametrize("method", ["grpo", "ada", "grpo_chosen", "ada_seq_balance"])
def test_a_state_of_a_version_that_kept_no_settings_loads(method):
    core, state = played_one(method, TEXTS)
    old = "format", "method", "prompts", "step", "num_prompts", "picked", "queue", "parts", "curriculum"
    other = Core(method, TEXTS, seed=3)
    other.load_state_dict({key: state[key] for key in old})
    assert other.state_dict() == core.state_dict()


def test_settings_that_a_later_version_adds_keep_no_state_from_loading():
    core, state = played_one()
    del state["settings"]["sampler"]["group_size"], state["settings"]["hints"]
    state["settings"]["estimator"]["_target_"] = "ada_lightning.methods.elsewhere.BetaHistory"
    other = Core("grpo", IDS, seed=3)
    other.load_state_dict(state)
    assert other.state_dict() == core.state_dict()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (json.dumps, "the state is a str: give the mapping that state_dict() returned; json.loads() reads a text"),
        (lambda state: None, "the state is a NoneType"),
        (lambda state: {}, "the state lacks format: give all that state_dict() returned"),
        (lambda state: without(state, "step", "parts"), "the state lacks step, parts: give all"),
        (lambda state: state | {"step": "1"}, "step must be a whole number of at least 0; got '1'"),
        (lambda state: state | {"num_prompts": -1}, "num_prompts must be a whole number of at least 0; got -1"),
        (lambda state: state | {"picked": [["z"]]}, "the state cannot be read (KeyError: 'z')"),
        (lambda state: state | {"queue": 3}, "the state cannot be read (TypeError: "),
        (lambda state: state | {"parts": []}, "the state cannot be read (AttributeError: "),
        (
            lambda state: state | {"parts": {"estimator": {"recent": []}}},
            "the state cannot be read (KeyError: 'counts')",
        ),
        (lambda state: state | {"settings": 3}, "the state cannot be read (AttributeError: "),
    ],
)
def test_a_state_that_is_none_or_not_whole_is_refused(damage, said):
    _, state = played_one()
    other = Core("grpo", IDS, seed=3)
    fresh = other.state_dict()
    with pytest.raises(ValueError, match=re.escape(said)):
        other.load_state_dict(damage(state))
    assert other.state_dict() == fresh
    other.load_state_dict(state)


def without(state, *keys):
    return {key: value for key, value in state.items() if key not in keys}


def test_a_state_of_parts_that_remember_otherwise_is_refused():
    core, pools = begun("ada")
    fill(pools)
    core.tell(pools)
    with pytest.raises(ValueError, match="BetaHistory"):
        Core("ada", prompts=IDS, estimator="ema").load_state_dict(core.state_dict())


def test_the_longest_response_is_a_number_of_tokens():
    core, pools = begun()
    fill(pools)
    for wrong in (0, -1, 8.0, math.nan, math.inf, "8", None, True, [8]):
        for each in (core, pools):
            with pytest.raises(ValueError, match="max_tokens must be a whole number of at least 1; got"):
                each.denominator(max_tokens=wrong)
    assert core.denominator(max_tokens=np.int64(8)) == 16.0
    core.tell(pools)
    with pytest.raises(RuntimeError, match="no step was begun"):
        core.denominator(max_tokens=8)


def test_the_longest_response_is_no_shorter_than_what_was_added():
    core, pools = begun(group_size=2)
    for pool in pools:
        for index in pool.launch(2):
            pool.add(index, 1.0, num_tokens=9 if index else 3)  # no signal: none of them trains
    for each in (core, pools):
        with pytest.raises(ValueError, match=r"max_tokens=8 is below the longest response added, of 9 tokens: give"):
            each.denominator(max_tokens=8)
        assert each.denominator(max_tokens=9) == 18.0
    assert pools.denominator(max_tokens=8, is_limit=False) == 16.0


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", None, math.nan])
def test_numbers_of_steps_are_whole(wrong):
    with pytest.raises(ValueError, match="open_steps must be a whole number of at least 1; got"):
        Core("grpo", IDS, open_steps=wrong)
    core = Core("grpo", IDS)
    if wrong != 0:
        with pytest.raises(ValueError, match="step must be a whole number of at least 0; got"):
            core.picked(wrong, 2)
    with pytest.raises(ValueError, match="num_prompts must be a whole number of at least 1"):
        core.picked(0, wrong)
    core._step = 1
    with pytest.raises(ValueError, match="num_prompts must be a whole number of at least 1"):
        core.picked(0, wrong)
    with pytest.raises(ValueError, match="num_prompts must be a whole number of at least 1"):
        core.choose(wrong)
    if wrong != 0:
        with pytest.raises(ValueError, match=r"wants \d+ responses now; launch"):
            Core("grpo", IDS).choose(2)[0].launch(wrong)


def played_with_hints(order, core, num_steps=3):
    """Nobody solves a prompt without a hint; with one, every second response is right. What trains, by pool."""
    told = []
    for _ in range(num_steps):
        pools = core.choose(num_prompts=4)
        waiting = []
        while not pools.is_complete:
            waiting += [(pool, index) for pool in pools for index in pool.launch(pool.want())]
            pool, index = waiting.pop(order.randrange(len(waiting)))
            is_right = bool(pool.hint) and pool.seed(index) % 2 == 0
            pool.add(index, float(is_right), num_tokens=2, payload=(pool.prompt_id, index))
        told.append(
            (
                sorted((pool.prompt_id, pool.bare_id, pool.hint, pool.num_drawn) for pool in pools),
                sorted((row.payload, row.advantage) for pool in pools for row in pool.kept()),
                pools.denominator(max_tokens=8),
            )
        )
        core.tell(pools)
    return told


def hinting(**options):
    given = {"hints": use(PrefixHints, p_min=0.5, doubt=0.99), "solutions": SOLUTIONS, "group_size": 4}
    return Core("grpo", list("abcdefgh"), seed=0, **(given | options))


def test_a_hinted_group_is_one_more_pool_of_the_step_whatever_order_things_come_in():
    first = played_with_hints(random.Random(1), hinting())
    assert first == played_with_hints(random.Random(2), hinting())
    for pools, rows, denominator in first:
        given = [pool for pool in pools if pool[2]]
        assert len(given) == 1  # four of twenty responses; two would be a third of 24
        assert {(pool[0], pool[2]) for pool in given} == {(f"{pool[1]}#1", "2 * 3 = 6\n") for pool in given}
        assert {payload[0] for payload, _ in rows} <= {pool[0] for pool in given}
        assert denominator == 4 * 8.0  # the hinted group comes on top
    assert any(rows for _, rows, _ in first)


def test_a_core_that_hints_goes_on_from_its_state():
    whole = hinting()
    told = played_with_hints(random.Random(1), whole, num_steps=4)
    before, after = hinting(), hinting()
    begun = played_with_hints(random.Random(1), before, num_steps=2)
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert begun + played_with_hints(random.Random(5), after, num_steps=2) == told
    assert after.state_dict() == whole.state_dict()


def test_solutions_and_hints_come_together():
    with pytest.raises(ValueError, match="nothing here reads solutions"):
        Core("grpo", ["a"], solutions={"a": "1\n2"})
    with pytest.raises(ValueError, match="none of the 1 training prompts has one"):
        Core("grpo", ["a"], hints="prefix")
    with pytest.raises(ValueError, match="there is a solution of 'b', which is not among the prompts"):
        Core("grpo", ["a"], hints="prefix", solutions={"b": "1\n2"})
    with pytest.raises(ValueError, match="nothing here reads answers"):
        Core("grpo", ["a"], answers={"a": 7})
    with pytest.raises(ValueError, match="there is an answer of 'b', which is not among the prompts"):
        Core("grpo", ["a"], hints="prefix", solutions={"a": "1\n2"}, answers={"b": 7})
    with pytest.raises(ValueError, match="no level of the 1 solutions"):
        Core("grpo", ["a"], hints="prefix", solutions={"a": "7\n#### 7"}, answers={"a": 7})
