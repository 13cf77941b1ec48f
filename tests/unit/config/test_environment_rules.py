from __future__ import annotations

import pytest

from ada_lightning.config.check import check_config
from ada_lightning.config.prepare import check_prepare_config
from ada_lightning.config.problems import ConfigError
from tests.unit.config.composing import composed, problems, said

GAME = "environment=custom environment.path=tests.unit.rollout.episodes.environments.OneTurn"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{GAME} data/format=plain", "environment takes turns with the model, but data/format=plain does not mark"),
        (f"{GAME} rollout.max_model_tokens=288",
         "no room for further turns. Use rollout.max_model_tokens=768, or lower data.max_prompt_tokens"),
        ("data=guess", "data=guess needs an environment that answers the model, but environment=none"),
        ("data=calculator", "Use environment=calculator or +experiment=environments/calculator"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_an_environment_is_refused(command, message):
    (found,) = said(command)
    assert message in found


@pytest.mark.parametrize(
    "overrides",
    [["+experiment=environments/calculator"], ["+experiment=[grpo,environments/guess]"], GAME.split(),
     ["environment=custom", "environment.path=tests.unit.adapters.library_environments.Numbers", "data=environment",
      "+environment.arguments.name=n"],
     ["environment=trl", "environment.arguments.path=tests.unit.rollout.episodes.trl_environments.Counter"]],
    ids=str,
)  # fmt: skip
def test_what_goes_with_one_is_taken(overrides):
    check_config(composed(*overrides))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["environment=custom"], "environment.path needs a value"),
        (["environment=custom", "environment.path=nowhere.Game"], "environment: cannot import 'nowhere'"),
        (
            ["environment=calculator", "environment.max_turns=0"],
            "environment: environment.max_turns must be at",
        ),
        (
            ["environment=calculator", "+environment.max_turn=3"],
            "unknown key environment.max_turn; did you mean",
        ),
        (
            ["data=environment"],
            "data=environment takes its prompts from the environment, and environment=none has none",
        ),
        (["environment=trl", "environment.arguments.path=nowhere.Game"], "cannot make environment.arguments.path ="),
        (
            ["environment=custom", "environment.path=tests.unit.rollout.episodes.environments.Plain"],
            "names a class without start(prompt, seed), cut(); define what is missing",
        ),
    ],
)
def test_an_environment_that_cannot_be_made_is_told_before_a_model_loads(overrides, message):
    assert sum(message in problem for problem in problems(*overrides)) == 1
    with pytest.raises(ConfigError) as error:
        check_prepare_config(composed(*overrides, program="prepare"))
    assert sum(message in problem for problem in error.value.problems) == 1
