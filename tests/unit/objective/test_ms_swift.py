"""The reader of ms-swift: what it makes of commands."""

from __future__ import annotations

import pytest

from ada_lightning.objective import objective_card
from ada_lightning.objective.command import card_of
from ada_lightning.objective.readers.ms_swift import ESTIMATORS, LOSS_TYPES, SCALES
from ada_lightning.objective.settings import SettingError
from ada_lightning.objective.update import Missing, Reduction, Spread, Truncated

DAPO = """
NPROC_PER_NODE=7 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-1.5B --reward_funcs accuracy soft_overlong \\
    --max_completion_length 4096 --soft_cache_length 819 --epsilon 0.2 --epsilon_high 0.28 --dynamic_sample true \\
    --overlong_filter true --loss_type bnpo --num_generations 8 --beta 0.0 --use_vllm true --temperature 1.0
"""
"""The settings of the DAPO page of its documentation."""


def card(**settings):
    return objective_card({"rlhf_type": "grpo", "num_generations": 8} | settings)


def test_a_documented_command(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text(DAPO)
    found = card_of(path, {})
    update = found.update
    assert (found.trainer.name, found.unknown_keys) == ("ms_swift", ())
    assert (update.reduction, update.counts_masked) == (Reduction.TOKEN_MEAN, False)
    assert (update.truncated, update.max_response_tokens) == (Truncated.MASKED, 4096)
    assert "last of them is thrown away" in update.filter.note
    assert [term.name for term in update.terms] == ["weight decay"]
    assert found.weights == pytest.approx((1.333, 1.135, 1, 1.135, 1.333), abs=6e-4)


def test_defaults_differ_from_those_of_trl():
    update = card().update
    assert (update.reduction, update.divisor.spread, update.missing) == (
        Reduction.RESPONSE_MEAN,
        Spread.GROUP,
        Missing.ZERO,
    )
    assert [term.coefficient for term in update.terms] == [0.04, 0.1]


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_combination_has_a_card(estimator, scale, loss_type):
    found = card(advantage_estimator=estimator, scale_rewards=scale, loss_type=loss_type)
    assert found.weights[2] == 1.0
    assert found.is_mean or found.remedies


def test_its_weights():
    assert card(advantage_estimator="rloo").is_mean
    assert card(advantage_estimator="rloo").weight_at_half == pytest.approx(1.0)
    beside = card(advantage_estimator="reinforce_plus_plus")
    assert beside.update.divisor.spread is Spread.BATCH_DIFFERENCES
    assert not beside.is_mean
    assert card(loss_type="cispo").weight_at_half == pytest.approx(0.3471, abs=6e-5)
    assert card(loss_type=["dr_grpo"], scale_rewards="none").remedies == ()


def test_where_the_kl_is():
    names = [card(advantage_estimator=name).update.terms[0].name for name in ("grpo", "rloo")]
    assert ["in the loss" in names[0], "in the reward" in names[1]] == [True, True]
    assert "in the loss" in card(advantage_estimator="rloo", scale_rewards="gdpo").update.terms[0].name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rlhf_type": "dpo"}, "rlhf_type is 'dpo'; .* takes one of grpo"),
        ({"loss_type": "mine"}, "loss_type is 'mine'"),
        ({"loss_type": ["grpo", "bnpo"]}, "loss_type is"),
        ({"num_generations": 1}, r"num_generations is 1; .* at least 2"),
    ],
)
def test_values_that_it_does_not_take_are_named(settings, message):
    with pytest.raises(SettingError, match=message):
        card(**settings)


def test_one_resampled_batch_filters_nothing():
    once = card(dynamic_sample=True, max_resample_times=1).update
    assert once.filter is None
    assert any("thrown away" in note for note in once.notes)


def test_what_is_not_determined_is_said():
    assert "logistic" in card(loss_type="real").update.undetermined
    assert card(loss_type="real").remedies[0].changes["loss_type"] != "real"
    assert "teacher" in card(teacher_model="x").update.undetermined
    assert card(my_key=1).unknown_keys == ("my_key",)
