"""The reader of OpenRLHF: what it makes of commands."""

from __future__ import annotations

import pytest

from ada_lightning.objective import objective_card
from ada_lightning.objective.command import card_of
from ada_lightning.objective.readers.openrlhf import AGGREGATIONS, ESTIMATORS, LOSSES
from ada_lightning.objective.sentences import facts
from ada_lightning.objective.settings import SettingError
from ada_lightning.objective.update import Keep, Reduction, Single, Truncated
from ada_lightning.objective.weights import is_mean

README = """
ray job submit --address="http://127.0.0.1:8265" -- python3 -m openrlhf.cli.train_ppo_ray \\
   --actor.num_gpus_per_node 8 --vllm.num_engines 4 --train.colocate_all --train.batch_size 128 \\
   --rollout.batch_size 1024 --rollout.n_samples_per_prompt 1 --train.max_epochs 1 --prompt_max_len 1024 \\
   --generate_max_len 1024 --actor.adam.lr 5e-7 --algo.kl.init_coef 0.01 --ds.packing_samples
"""
"""Keys of the command in the README of 0.11.2, two of which its parser does not have."""
PRORL = """
python3 -m openrlhf.cli.train_ppo_ray --algo.kl.init_coef 1e-4 --algo.kl.use_loss --algo.kl.estimator k2 \\
   --algo.advantage.estimator reinforce_baseline --algo.dynamic_filtering_enable --algo.dynamic_filtering_range 0 1 \\
   --actor.eps_clip_low_high 0.2 0.27 --train.batch_size 1024 --rollout.batch_size 512 \\
   --rollout.n_samples_per_prompt 16 --rollout.max_new_tokens 8192 --reward.stop_properly_penalty_coef 0.0 \\
   --algo.advantage.is_correction_level token --algo.advantage.is_correction_threshold 0.5 5.0
"""
"""The settings of ``examples/scripts/train_prorlv2_math_hybrid_engine.sh``, by the names of 0.11.2."""


def card(estimator="group_norm", n=8, **more):
    settings = {"algo.advantage.estimator": estimator, "rollout.n_samples_per_prompt": n}
    return objective_card(settings | {key.replace("__", "."): value for key, value in more.items()})


def test_the_readme_command_is_read_and_its_missing_options_are_named(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text(README)
    found = card_of(path, {})
    assert found.trainer.name == "openrlhf"
    assert found.unknown_keys == ("generate_max_len", "prompt_max_len")
    assert any("older versions" in sentence for sentence in found.update.unknown)
    assert "critic" in found.update.undetermined
    assert found.remedies[0].command.endswith("--rollout.n_samples_per_prompt 8 --algo.advantage.estimator dr_grpo")


def test_a_recipe_with_everything_on(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text(PRORL)
    found = card_of(path, {})
    update = found.update
    assert found.unknown_keys == ()
    assert (update.group_size, update.updates_per_rollout, update.batch_prompts) == (16, 8, 512)
    assert (update.filter.keep, update.filter.refills, update.truncated) == (
        Keep.MEAN_INSIDE,
        True,
        Truncated.PENALISED,
    )
    assert "A wrong one loses nothing, and gains where its reward is below 0." in update.truncated_note
    assert "0.8 .. 1.27" in update.clip.text
    assert [term.coefficient for term in update.terms] == [1e-4]
    assert "in the loss" in update.terms[0].name
    assert found.weights == pytest.approx((1, 1, 1, 1, 1))
    assert not found.is_mean  # whitening ties prompts together


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_combination_has_a_card(estimator, loss, aggregation):
    found = card(estimator, actor__policy_loss_type=loss, actor__loss_agg_mode=aggregation)
    assert found.weights[2] == 1.0
    assert found.is_mean or found.remedies
    is_token_mean = (loss, aggregation) == ("ppo", "token-mean")
    assert found.update.reduction is (Reduction.TOKEN_MEAN if is_token_mean else Reduction.RESPONSE_MEAN)


def test_its_weights():
    assert card().weights == pytest.approx((1.333, 1.135, 1, 1.135, 1.333), abs=6e-4)
    assert card("dr_grpo").is_mean
    assert card("rloo").is_mean
    beside = card("reinforce_baseline")
    assert beside.weights_beside == pytest.approx((1.134, 1.057, 1.0, 1.057, 1.134), abs=6e-4)
    assert is_mean(beside.update)
    # of 128 responses a lone right one has the advantage 127 / sqrt(128) = 11.2, which is cut at 10
    assert card(n=128).weights[0] < card(n=128, reward__clip_range=[-20, 20]).weights[0]


def test_a_range_of_rewards_cuts_advantages():
    positive = card("dr_grpo", reward__clip_range=[0, 1])
    assert not positive.is_mean  # no response is pushed down
    assert positive.weight_at_half == pytest.approx(0.4375)
    assert positive.remedies[0].changes["reward.clip_range"] == [-10, 10]
    assert any("cuts advantages" in note for note in positive.update.notes)
    assert facts(positive)["cut to"] == "0 .. 1"
    assert facts(card("dr_grpo"))["cut to"] == "-10 .. 10"
    assert card("dr_grpo", reward__clip_range=None).is_mean  # nothing is cut


def test_a_filter_of_the_mean_changes_weights_unless_it_is_open():
    wide = card(algo__dynamic_filtering_enable=True)
    assert wide.weights == card().weights
    narrow = card(algo__dynamic_filtering_enable=True, algo__dynamic_filtering_range=[0.2, 0.8])
    assert narrow.weights[0] < 0.6 * card().weights[0]
    assert narrow.responses[0] > wide.responses[0]


def test_groups_of_one():
    assert card("flash_reinforce", n=1).update.single is Single.AS_OTHERS
    with pytest.raises(SettingError, match=r"n_samples_per_prompt is 1; .* at least 2"):
        card("dr_grpo", n=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"actor__eps_clip_low_high": [0.2]}, r"eps_clip_low_high is \[0.2\]; .* 2 numbers"),
        ({"reward__clip_range": ["a", "b"]}, "clip_range is .* 2 numbers"),
        ({"algo__kl__estimator": "k4"}, "estimator is 'k4'; .* one of k1, k2, k3"),
        ({"reward__clip_range": "01"}, "clip_range is '01'; .* 2 numbers"),
    ],
)
def test_values_that_it_does_not_take_are_named(settings, message):
    with pytest.raises(SettingError, match=message):
        card(**settings)
