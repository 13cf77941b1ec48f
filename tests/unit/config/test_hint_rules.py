"""What hints do not go with is refused before a model loads."""

from __future__ import annotations

import pytest

from ada_lightning.adapters import Core
from ada_lightning.adapters.prompt_steps import PromptSteps
from ada_lightning.config.preset import Preset
from ada_lightning.config.problems import ConfigError


@pytest.mark.parametrize(
    ("experiment", "overrides", "message"),
    [
        ("dapo", (), "PrefixHints adds groups to a step, and so does DynamicSampling. Use refill=none or hints=none"),
        (
            "ada_seq_balance",
            ("sampler.budget_per_step=1000",),
            "adds groups to a step, but sampler.budget_per_step = 1000 divides it. Use sampler.budget_per_step=0",
        ),
        ("gvm_grpo", (), "adds groups to a step under way, but GvmSampler has 2 stages. Use sampler=uniform"),
        ("coba_rl", (), "but CobaSampler divides it before it begins. Use sampler=uniform"),
        ("grpo", ("advantage=gdpo",), "with a baseline of their own, but GdpoAdvantage compares the groups of a step"),
        ("grpo", ("environment=calculator",), "helps with a single turn, but an environment answers it in several"),
        (
            "grpo",
            ("rollout.stream_gradients=true",),
            "with hints it is known only at the end of a step how many groups",
        ),
    ],
)
def test_parts_that_hints_do_not_go_with_are_refused(experiment, overrides, message):
    with pytest.raises(ConfigError) as refused:
        Preset(experiment, "hints=prefix", *overrides)
    assert message in str(refused.value)


@pytest.mark.parametrize("experiment", ["grpo", "ada_seq_balance", "rarer_class", "grpo_chosen"])
def test_methods_that_decide_prompt_by_prompt_take_hints(experiment):
    assert Preset(experiment, "hints=prefix", "hints.num_levels=4").method.hints.num_levels == 4


def test_trainers_that_show_one_prompt_at_a_time_refuse_hints():
    with pytest.raises(ConfigError, match="PrefixHints adds groups to a step, but this trainer shows prompts one at a"):
        PromptSteps("grpo", hints="prefix")
    core = Core("grpo", ["a"], hints="prefix", solutions={"a": "1\n2"})
    assert core.unmet(metrics=False, refill=False, hints=False, answers=False) == [
        "grpo: PrefixHints draws prompts again with a hint"
    ]
    assert "is drawn again with the first lines of its solution given" in core.statement()
