"""Thinning must not move the expected update, and must cost less where history knew the outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ada_lightning.analysis.statement import describe_update
from ada_lightning.config.method_rules import selection_errors
from ada_lightning.config.view import ConfigView
from ada_lightning.core.records import Belief, ResponseGroup
from ada_lightning.methods.advantages import HistoryBaselineAdvantage
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.sampling.forecast import forecast
from ada_lightning.methods.selection import ThinnedSelection
from ada_lightning.training.losses import (
    ClippedPolicyLoss,
    ConstantReduction,
    PromptMeanReduction,
    ResponseMeanReduction,
)
from tests.builders import make_pool
from tests.unit.config.composing import composed

NUM_DRAWS = 2000
EVEN = Belief(1.0, 1.0)


def pool_of(rewards, belief=EVEN, step=0, slot=0, key=0):
    pool = make_pool(rewards, slot=slot, key=key)
    pool.step, pool.belief = step, belief
    return pool


def weights(rewards, belief, **options):
    """Weight of a pool in each of many steps, 0 where it is left out, and the size of its advantage."""
    selection = ThinnedSelection(**{"full_advantage": 0.3, **options})
    found = []
    for step in range(NUM_DRAWS):
        kept = selection.select(pool_of(rewards, belief, step))
        assert len(kept) in (0, len(rewards))
        found.append(kept[0].inverse_probability if kept else 0.0)
    (advantages,) = HistoryBaselineAdvantage().assign([whole(rewards, belief)])
    return found, abs(advantages[0])


def whole(rewards, belief):
    pool = pool_of(rewards, belief)
    return ResponseGroup(pool, ThinnedSelection(full_advantage=1e-9).select(pool))


@pytest.mark.parametrize(
    ("rewards", "belief"),
    [([1] * 4, Belief(7.0, 1.0)), ([0] * 4, Belief(2.0, 8.0)), ([1], Belief(8.0, 2.0)), ([0.5] * 3, Belief(5.0, 4.0))],
)
@pytest.mark.filterwarnings("ignore:advantage. rewards other than 0 and 1")
def test_the_expected_weight_is_one(rewards, belief):
    """A weight of 1/q with probability q has the variance 1/q - 1; four standard errors are 1 in 16,000."""
    found, advantage = weights(rewards, belief)
    probability = min(1.0, advantage / 0.3)
    assert 0.05 < probability < 0.9  # it is put to the test
    assert sum(found) / NUM_DRAWS == pytest.approx(1.0, abs=4 * ((1 / probability - 1) / NUM_DRAWS) ** 0.5)
    assert [weight for weight in found if weight] == pytest.approx([1 / probability] * sum(map(bool, found)))


def test_no_advantage_grows_beyond_the_full_one():
    found, advantage = weights([1] * 4, Belief(39.0, 1.0))
    assert max(found) * advantage == pytest.approx(0.3)


def test_what_history_did_not_expect_always_trains_and_what_differs_trains_whole():
    assert set(weights([1] * 4, Belief(1.0, 9.0))[0]) == {1.0}
    kept = ThinnedSelection(full_advantage=100.0).select(pool_of([1, 0, 0, 0]))
    assert [each.inverse_probability for each in kept] == [1.0] * 4


def test_an_advantage_of_exactly_zero_is_left_out():
    assert ThinnedSelection(full_advantage=1e-9).select(pool_of([0.5] * 2)) == ()


def test_masked_responses_never_train_and_an_empty_pool_keeps_nothing():
    pool = pool_of([1, 1, 1], Belief(1.0, 9.0))
    pool.responses[0] = replace(pool.responses[0], is_masked=True)
    assert [each.response.sample_index for each in ThinnedSelection(full_advantage=0.1).select(pool)] == [1, 2]
    assert ThinnedSelection(full_advantage=0.3).select(pool_of([])) == ()


THINNED = ["+experiment=ada", "selection=thinned"]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["+experiment=grpo", "selection=thinned"], "With GroupNormalizedAdvantage they do not train"),
        ([*THINNED, "refill=dynamic"], "DynamicSampling replaces all of them"),
        ([*THINNED, "loss.kl_coef=0.01"], "loss.kl_coef = 0.01 would see only"),
        ([*THINNED, "loss.entropy_coef=0.1"], "loss.entropy_coef = 0.1 would see only"),
        ([*THINNED, "loss=flowrl", "loss/reduction=constant"], "FlowRlLoss also trains on prompts whose rewards"),
        ([*THINNED, "loss/reduction=token_mean"], "TokenMeanReduction would divide by what is left"),
        ([*THINNED, "loss/reduction=response_mean"], "ResponseMeanReduction would divide by what is left"),
        (
            ["+experiment=pruning", "sampler=uniform", "loss.kl_coef=0.01"],
            "PruningSelection leaves out responses by chance",
        ),
    ],
)
def test_what_thinning_does_not_go_with_is_refused(overrides, said):
    (error,) = selection_errors(ConfigView(composed(*overrides)))
    assert said in error


@pytest.mark.parametrize("overrides", [THINNED, ["+experiment=pruning"]])
def test_what_it_goes_with_passes(overrides):
    assert list(selection_errors(ConfigView(composed(*overrides)))) == []


def test_a_selection_within_another_is_looked_at():
    within = ["selection.selection._target_=ada_lightning.methods.selection.ThinnedSelection"]
    (error,) = selection_errors(ConfigView(composed("+experiment=grpo", "selection=resolved", *within)))
    assert error.startswith("selection.selection: ThinnedSelection thins out")


def test_a_forecast_draws_anew_every_time():
    """Four right answers of four were expected: about a third of such prompts train, whatever the seed of one draw."""
    for seed in range(5):
        selection = ThinnedSelection(full_advantage=0.3, seed=seed)
        found = forecast([(8, 8)], UniformSampler(group_size=4), selection, keep_groups_without_signal=True)
        assert 0.1 < found.trained_ratio < 0.9


@pytest.mark.parametrize(
    ("reduction", "is_undone"),
    [
        (ConstantReduction(token_scale=1.0), True),
        (PromptMeanReduction(token_scale=1.0), True),
        (ResponseMeanReduction(), False),
    ],
    ids=["constant", "prompt_mean", "response_mean"],
)
def test_the_statement_says_which_denominators_undo_it(reduction, is_undone):
    lines = describe_update(
        advantage=HistoryBaselineAdvantage(),
        sampler=UniformSampler(group_size=4),
        selection=ThinnedSelection(full_advantage=0.3),
        loss=ClippedPolicyLoss(reduction=reduction),
        num_minibatches=1,
        max_grad_norm=1.0,
        truncated="grade",
    )
    assert ("exact" in lines[0]) == is_undone
    assert any("no longer undo it" in line for line in lines) != is_undone
    assert any("in proportion to their advantage" in line for line in lines)
