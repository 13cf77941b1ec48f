"""The reader of TRL: what it makes of settings."""

from __future__ import annotations

import pytest

from ada_lightning.objective import objective_card
from ada_lightning.objective.readers.trl import LOSS_TYPES, TRAINER
from ada_lightning.objective.settings import SettingError, Settings
from ada_lightning.objective.update import Missing, Reduction, Single, Spread, Truncated


def update_of(**settings):
    return TRAINER.update(Settings(TRAINER, settings, "x"))


def test_defaults_are_those_of_dapo_with_the_groups_spread():
    update = update_of()
    assert (update.group_size, update.reduction, update.divisor.spread) == (8, Reduction.TOKEN_MEAN, Spread.GROUP)
    assert (update.single, update.missing, update.truncated) == (Single.REFUSED, Missing.LEFT_OUT, Truncated.KEPT)
    assert update.terms == ()
    assert objective_card({"num_generations": 8}).weights == pytest.approx((1.333, 1.135, 1, 1.135, 1.333), abs=6e-4)


@pytest.mark.parametrize("value", ["none", False, "False"])
def test_scale_rewards_as_python_and_the_command_line_spell_it(value):
    assert update_of(scale_rewards=value).divisor.spread is Spread.NONE


def test_cispo_with_the_default_bound_has_a_fifth_of_the_gradient():
    assert update_of(loss_type="cispo").gain == 0.2
    assert update_of(loss_type="cispo", epsilon_high=5.0).gain == 1.0


def test_the_settings_that_make_it_the_mean_pass_rate():
    card = objective_card({"num_generations": 8, "loss_type": "grpo"}, name="a.yaml")
    assert [(remedy.changes, remedy.counts_tokens_alike) for remedy in card.remedies] == [
        ({"scale_rewards": "none"}, False),
        ({"scale_rewards": "none", "loss_type": "dr_grpo"}, True),
    ]
    assert card.remedies[0].command == "trl grpo --config a.yaml --scale_rewards none"
    only_length = objective_card({"num_generations": 8, "scale_rewards": "none"})
    assert [remedy.changes for remedy in only_length.remedies] == [{"loss_type": "dr_grpo"}]
    done = objective_card({"num_generations": 8, "scale_rewards": "none", "loss_type": "dr_grpo"})
    assert (done.is_mean, done.remedies) == (True, ())


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_every_combination_has_a_card(loss_type, scale):
    card = objective_card({"num_generations": 4, "loss_type": loss_type, "scale_rewards": scale})
    assert card.weights[2] == 1.0
    assert bool(card.weights_beside) == (scale == "batch")
    assert card.remedies or card.is_mean


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss_type": "ppo"}, r"loss_type is 'ppo'; TRL's GRPOTrainer 1.16.0 takes one of grpo, dr_grpo"),
        ({"num_generations": 1}, r"num_generations is 1; .* a number of at least 2"),
        ({"num_generations": 10**5000}, "thousands of digits"),
        ({"num_generations": 2.5}, "a whole number"),
        ({"beta": "much"}, "beta is 'much'"),
        ({"mask_truncated_completions": 3}, "true or false"),
    ],
)
def test_values_that_it_does_not_take_are_named(settings, message):
    with pytest.raises(SettingError, match=message):
        objective_card({"num_generations": 8} | settings)


def test_keys_that_are_not_known_are_named():
    card = objective_card({"num_generations": 8, "learning_rate": 1e-6, "my_key": 1})
    assert card.unknown_keys == ("my_key",)


def test_a_configuration_object_is_read_and_its_version_with_it():
    trl = pytest.importorskip("trl")
    config = trl.GRPOConfig(output_dir="unused", use_cpu=True, bf16=False, num_generations=4, scale_rewards=False)
    card = objective_card(config)
    assert (card.name, card.version, card.unknown_keys) == ("GRPOConfig", trl.__version__, ())
    assert (card.update.group_size, card.update.divisor.spread, card.update.batch_prompts) == (4, Spread.NONE, 2)
    assert card.is_checked == (trl.__version__ == TRAINER.version)


def test_defaults_and_keys_are_those_of_the_package():
    import dataclasses

    trl = pytest.importorskip("trl")
    from trl.scripts.grpo import GRPOScriptArguments
    from trl.scripts.utils import DatasetMixtureConfig

    if trl.__version__ != TRAINER.version:
        pytest.skip(f"TRL {trl.__version__} is installed; the reader is of {TRAINER.version}")
    classes = (trl.GRPOConfig, GRPOScriptArguments, trl.ModelConfig, DatasetMixtureConfig)
    fields = {field.name: field.default for kind in classes for field in dataclasses.fields(kind)}
    assert {key for key in fields if not TRAINER.knows(key)} == set()
    assert {key: fields[key] for key in TRAINER.defaults} == TRAINER.defaults
