"""What hints do not go with is refused before a model loads."""

from __future__ import annotations

import pytest

from ada_lightning.adapters import Core
from ada_lightning.adapters.prompt_steps import PromptSteps
from ada_lightning.config.preset import Preset
from ada_lightning.config.problems import ConfigError

every_kind = pytest.mark.parametrize("kind", ["prefix", "text"])


@pytest.mark.thinned(8)
@pytest.mark.parametrize(
    ("experiment", "overrides", "message"),
    [
        ("dapo", (), "Hints adds groups to a step, and so does DynamicSampling. Use refill=none or hints=none"),
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
            ("data.prompts_per_step=2", "sampler.group_size=8"),
            "hints.max_share = 0.25 leaves no hinted group room in a step of 2 prompts with at most 8 responses each. "
            "Use ",
        ),
        (
            "grpo",
            ("rollout.stream_gradients=true",),
            "with hints it is known only at the end of a step how many groups",
        ),
    ],
)
@every_kind
def test_parts_that_hints_do_not_go_with_are_refused(experiment, overrides, message, kind):
    with pytest.raises(ConfigError) as refused:
        Preset(experiment, f"hints={kind}", *overrides)
    assert message in str(refused.value)


@pytest.mark.parametrize("experiment", ["grpo", "ada_seq_balance", "rarer_class", "grpo_chosen"])
@every_kind
def test_methods_that_decide_prompt_by_prompt_take_hints(experiment, kind):
    setting = {"prefix": "num_levels", "text": "max_hint_tokens"}[kind]
    assert getattr(Preset(experiment, f"hints={kind}", f"hints.{setting}=4").method.hints, setting) == 4


@every_kind
def test_trainers_that_show_one_prompt_at_a_time_refuse_hints(kind):
    with pytest.raises(ConfigError, match="Hints adds groups to a step, but this trainer shows prompts one at a"):
        PromptSteps("grpo", hints=kind)


def test_a_loop_of_ones_own_takes_lines_of_the_solution_and_no_hint_that_is_to_be_written():
    core = Core("grpo", ["a"], hints="prefix", solutions={"a": "1\n2"})
    assert core.unmet(metrics=False, refill=False, hints=False, answers=False) == [
        "grpo: PrefixHints draws prompts again with a hint"
    ]
    assert "is drawn again with the first lines of its solution given" in core.statement()
    with pytest.raises(ConfigError, match=r"TextHints has the policy write a hint .* use hints=prefix"):
        Core("grpo", ["a"], hints="text", solutions={"a": "1\n2"})


def test_a_step_of_a_loop_of_ones_own_has_room_for_a_hinted_group():
    core = Core("grpo", list("abcd"), hints="prefix", solutions={"a": "1\n2"})
    with pytest.raises(ValueError, match=r"hints\.max_share = 0\.25 leaves .* of 2 prompts .* Use 3 prompts a step"):
        core.choose(2)
    assert len(core.choose(3)) == 3
