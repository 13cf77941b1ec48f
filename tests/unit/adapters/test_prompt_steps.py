"""Steps of one prompt: what works on them, and what a prompt may say itself."""

from __future__ import annotations

import pytest

from ada_lightning.adapters.prompt_steps import PromptSteps
from ada_lightning.config.problems import ConfigError


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("ada", r"chooses prompts \(PosteriorSampling\)"),
        ("ada_est_ema", "EstimatedSampler divides a step among its prompts"),
        ("dapo", "adds prompts to a step"),
        ("gdpo", "looks at components of every response"),
        ("ada_seq_balance_official", "divides by what the whole step keeps"),
    ],
)
def test_methods_that_remember_or_divide_a_step_are_refused(method, said):
    with pytest.raises(ConfigError, match=said):
        PromptSteps(method)


@pytest.mark.parametrize(
    ("overrides", "part"), [({"selection": "seen"}, "SeenSel"), ({"sampler": "first_visit", "group_size": 2}, "FirstV")]
)
def test_what_goes_by_earlier_visits_is_refused(overrides, part):
    with pytest.raises(ConfigError, match=f"grpo: {part}.* needs to know whether a prompt came before"):
        PromptSteps("grpo", **overrides)


@pytest.mark.parametrize("most", [2, 6])
def test_a_prompt_may_say_how_many_a_fixed_group_has(most):
    (pool,) = PromptSteps("grpo", advantage="exact", objective="log").begin("a", step=0, most=most)
    assert pool.want() == most


@pytest.mark.parametrize("most", [4, 8])
def test_a_prompt_may_say_where_a_stopping_rule_ends(most):
    pools = PromptSteps("ada_seq_pos", n_max=16).begin("a", step=0, most=most)
    (pool,) = pools
    while not pools.is_complete:
        for index in pool.launch(pool.want()):
            pool.add(index, 0.0, num_tokens=1)
    assert pool.num_drawn == most


def test_a_cap_that_is_no_multiple_of_the_block_is_refused():
    with pytest.raises(ConfigError, match="does not divide n_max = 6"):
        PromptSteps("ada_seq_pos", n_max=16).begin("a", step=0, most=6)


def test_steps_of_several_prompts_do_not_know_of_each_other():
    steps = PromptSteps("ada_seq_pos", n_max=8)
    begun = {name: steps.begin(name, step=0) for name in "ab"}
    for rewards, name in ((1.0, "b"), (0.0, "a")):
        (pool,) = begun[name]
        for index in pool.launch(pool.want()):
            pool.add(index, rewards, num_tokens=1)
    assert [begun[name].is_complete for name in "ab"] == [False, True]
