"""The reader of verl: what it makes of settings."""

from __future__ import annotations

import pytest

from ada_lightning.objective import objective_card
from ada_lightning.objective.readers.verl import AGGREGATIONS, ESTIMATORS
from ada_lightning.objective.settings import SettingError
from ada_lightning.objective.update import Keep, Single
from ada_lightning.objective.weights import is_mean


def card_of(estimator="grpo", n=8, **more):
    settings = {"algorithm.adv_estimator": estimator, "actor_rollout_ref.rollout.n": n}
    return objective_card(settings | {key.replace("__", "."): value for key, value in more.items()})


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_combination_has_a_card(estimator, aggregation):
    card = card_of(estimator, actor_rollout_ref__actor__loss_agg_mode=aggregation)
    assert card.weights[2] == 1.0
    assert card.is_mean or card.remedies
    assert card.unknown_keys == ()


def test_its_weights():
    assert card_of().weights == pytest.approx((1.333, 1.135, 1, 1.135, 1.333), abs=6e-4)
    assert card_of("rloo").is_mean
    assert card_of("opo").is_mean
    assert card_of(algorithm__norm_adv_by_std_in_grpo=False).is_mean
    assert card_of("grpo_passk").nearest[0].name == "pass@8"
    coupled = card_of("reinforce_plus_plus_baseline")
    assert coupled.weights_beside == pytest.approx((1.134, 1.057, 1, 1.057, 1.134), abs=6e-4)
    assert is_mean(coupled.update)
    assert not coupled.is_mean


def test_one_response_a_prompt_trains_on_its_raw_reward():
    card = card_of(n=1)
    assert card.update.single is Single.RAW
    assert any("raw reward" in note for note in card.update.notes)


def test_a_critic_is_not_determined():
    card = card_of("gae")
    assert (card.weights, card.nearest) == ((), ())
    assert "value model" in card.update.undetermined
    assert card.remedies[0].changes == {"algorithm.adv_estimator": "rloo"}


def test_a_filter_costs_and_reads_the_penalty():
    more = {"algorithm__filter_groups__enable": True, "reward__reward_kwargs__overlong_buffer_cfg__enable": True}
    card = card_of(**more)
    assert card.update.filter.keep is Keep.SPREAD
    assert "overlong penalty" in card.update.filter.note
    assert card.responses == pytest.approx((23.8, 9.6, 8.1, 9.6, 23.8), abs=0.05)


def test_an_estimator_of_ones_own_is_refused():
    with pytest.raises(SettingError, match="adv_estimator is 'mine'"):
        card_of("mine")


def test_keys_that_are_not_known_are_named():
    card = card_of(actor_rollout_ref__actor__mine=1, algorithm__filter_groups___target_="x")
    assert card.unknown_keys == ("actor_rollout_ref.actor.mine",)
