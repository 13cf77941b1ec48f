"""The reader of tinker-cookbook: what it makes of recipes' commands and of the file that a run writes."""

from __future__ import annotations

import json
import math

import pytest

from ada_lightning.objective import as_text, objective_card
from ada_lightning.objective.command import card_of
from ada_lightning.objective.readers.tinker_cookbook import LOSSES
from ada_lightning.objective.settings import SettingError
from ada_lightning.objective.update import Keep, Reduction, Single, Truncated

MATH = """
python -m tinker_cookbook.recipes.math_rl.train env=math model_name="Qwen/Qwen3.5-9B" group_size=16 \\
    groups_per_batch=64 learning_rate=2e-5 max_tokens=512 loss_fn=importance_sampling
"""
"""The command for MATH in the README of its math recipe."""
CODE = """
python -m tinker_cookbook.recipes.code_rl.train \\
    model_name="Qwen/Qwen3.5-4B" \\
    group_size=8 groups_per_batch=128 \\
    learning_rate=4e-5 \\
    lora_rank=32 \\
    max_tokens=24576
"""
"""The command in the README of its code recipe."""
BASIC = {
    "model_name": "Qwen/Qwen3.5-9B-Base",
    "recipe_name": "recipe_rl_basic",
    "dataset_builder": {"batch_size": 128, "group_size": 16, "renderer_name": "x"},
    "learning_rate": 4e-5,
    "max_tokens": 256,
    "eval_every": 0,
    "loss_fn": "importance_sampling",
    "async_config": None,
    "kl_reference_config": None,
}
"""What ``recipes/rl_basic.py`` sets, as a run's ``config.json`` has it."""


def card(**settings):
    return objective_card({"group_size": 8, "groups_per_batch": 4, "loss_fn": "importance_sampling"} | settings)


def read(tmp_path, text, name="run.sh", **changes):
    path = tmp_path / name
    path.write_text(text)
    return card_of(path, changes)


def test_a_documented_command_is_the_mean_pass_rate(tmp_path):
    found = read(tmp_path, MATH)
    update = found.update
    assert (found.trainer.name, found.unknown_keys) == ("tinker_cookbook", ())
    assert (update.group_size, update.batch_prompts, update.max_response_tokens) == (16, 64, 512)
    assert (update.reduction, update.single, update.filter) == (Reduction.TOKEN_SUM, Single.ZERO, None)
    assert found.is_mean
    assert found.remedies == ()
    assert found.weight_at_half == pytest.approx(15 / 16)
    assert "was read in its documentation, and not run" in as_text(found).replace("\n    ", " ")


def test_a_recipe_without_a_loss_is_not_guessed(tmp_path):
    found = read(tmp_path, CODE)
    assert found.unknown_keys == ()
    assert "a loss of its own where loss_fn is silent" in found.update.undetermined
    assert found.remedies[0].changes == {"loss_fn": "importance_sampling"}


def test_the_file_of_a_run_is_read(tmp_path):
    found = read(tmp_path, json.dumps(BASIC), "config.json")
    assert (found.trainer.name, found.unknown_keys, found.is_mean) == ("tinker_cookbook", (), True)
    assert (found.update.group_size, found.update.batch_prompts) == (16, 128)
    ahead = json.dumps(BASIC | {"async_config": {"max_steps_off_policy": 2, "groups_per_batch": 32}})
    behind = read(tmp_path, ahead, "config.json")
    assert "stable_reinforce" in behind.update.undetermined
    assert behind.update.batch_prompts == 32
    assert behind.remedies[0].changes == {"async_config.loss_fn": "importance_sampling"}
    assert any("loss_fn has no effect" in note for note in behind.update.notes)


@pytest.mark.parametrize("filters", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_published_loss_has_a_card(loss, filters):
    found = card(loss_fn=loss, loss_fn_config={"beta": 0.05}, remove_constant_reward_groups=filters)
    assert found.is_mean
    assert found.weights == pytest.approx((1, 1, 1, 1, 1))
    assert (found.update.filter is not None and found.update.filter.keep is Keep.SPREAD) is filters
    assert [term.coefficient for term in found.update.terms] == ([0.05] if loss == "dro" else [])


@pytest.mark.parametrize("loss", ["stable_reinforce", "gspo"])
def test_a_loss_without_a_published_formula_is_not_determined(loss):
    found = card(loss_fn=loss)
    assert f"{loss} runs on Tinker's servers" in found.update.undetermined
    assert found.weights == ()


def test_further_settings():
    found = card(
        loss_fn="ppo",
        loss_fn_config={"clip_low_threshold": 0.9, "clip_high_threshold": 1.1},
        kl_penalty_coef=0.1,
        num_substeps=4,
        max_steps_off_policy=3,
        temperature=0.7,
        termination={"zero_reward_on_limit": True},
        remove_constant_reward_groups=True,
        my_key=1,
    )
    update = found.update
    assert "0.9 .. 1.1" in update.clip.text
    assert (update.terms[0].coefficient, update.terms[0].moves_equal) == (0.1, True)
    assert (update.updates_per_rollout, update.truncated, update.filter.refills) == (4, Truncated.PENALISED, True)
    assert len(update.corrections) == 3
    assert found.unknown_keys == ("my_key",)
    assert card(model_name="thinkingmachines/Inkling-1").update.truncated is Truncated.PENALISED
    assert math.isclose(card(remove_constant_reward_groups=True).responses[2], 8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group_size": None}, "no group_size, .* add group_size=N"),
        ({"group_size": 0}, "group_size is 0; .* at least 1"),
        ({"loss_fn": "mine"}, "loss_fn is 'mine'; .* one of importance_sampling"),
        ({"num_substeps": 0}, "num_substeps is 0"),
        ({"kl_penalty_coef": -1}, "kl_penalty_coef is -1"),
    ],
)
def test_values_that_it_does_not_take_are_named(settings, message):
    with pytest.raises(SettingError, match=message):
        card(**settings)
