"""What loss, token masks, advantage, optimiser, sampler and reward need of each other is said before a model loads."""

from __future__ import annotations

import pytest
from hydra.utils import instantiate

from ada_lightning.config.check import ConfigError, check_config
from ada_lightning.config.estimator import label_errors
from ada_lightning.config.setup import Setup
from ada_lightning.config.update import update_errors
from tests.unit.config.composing import composed


def test_masks_combine_and_none_is_none():
    both = composed("token_masks=[capo,jackpot]", "token_masks.jackpot.cap=3", "seed=7").token_masks
    assert list(both) == ["capo", "jackpot"]
    assert [mask.name for mask in instantiate(both).values()] == ["capo", "jackpot"]
    assert (both.jackpot.cap, both.jackpot.seed) == (3, 7)
    assert list(composed("token_masks=capo").token_masks) == ["capo"]
    assert composed().token_masks == {}
    assert composed("+experiment=capo", "token_masks=none").token_masks == {}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["token_masks=[capo,jackpot]"], ""),
        (["loss=flowrl", "advantage=grpo"], ""),
        (["loss=flowrl", "advantage=official"], ""),
        (["token_masks=capo", "token_masks.capo.max_shift=-1"], "token_masks.capo: token_masks.capo.max_shift must be"),
        (
            ["token_masks=capo", "optimizer._target_=torch.optim.SGD", "~optimizer.betas", "~optimizer.fused"],
            "token_masks.capo models a step of Adam .* optimizer = SGD has no such moments; use optimizer=adamw",
        ),
        (
            ["token_masks=jackpot", "loss.importance_cap=0", "token_masks.jackpot.cap=2"],
            "token_masks.jackpot .* loss.importance_cap = 0, so there is none; use loss=clipped with .*cap=2",
        ),
        (
            ["token_masks=jackpot", "loss=flowrl", "advantage=grpo", "token_masks.jackpot.cap=2"],
            "token_masks.jackpot .* FlowRlLoss has no importance_cap",
        ),
        (["loss=flowrl"], "advantage: loss=flowrl .* ExactAdvantage is weighted by more .* use advantage=grpo"),
        (["loss=flowrl", "advantage=weighted_leave_one_out"], "WeightedLeaveOneOutAdvantage is weighted by more"),
        (["loss=flowrl", "advantage=paper_v3"], "PoolMeanAdvantage is weighted by more"),
    ],
)
def test_what_does_not_go_together_is_refused(overrides, message):
    found = list(update_errors(Setup(composed(*overrides))))
    if not message:
        assert found == []
    else:
        assert len(found) == 1
        with pytest.raises(ConfigError, match=message):
            check_config(composed(*overrides))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], ""),
        (["reward=exact_match"], ""),
        (["reward=numeric"], ""),
        (["reward=math", "reward.reward.own_spelling=true"], ""),
        (["reward=function", "reward.reward.path=tests.integration.graders.counts_letters"], ""),
        (["reward=math"], "MathReward spells an answer like the reference where it equals it; use reward=exact_match"),
        (
            ["reward=function", "reward.reward.path=tests.integration.graders.has_few_letters"],
            "FunctionReward tells none",
        ),
    ],
)
def test_labels_are_made_of_answers_that_know_no_reference(overrides, message):
    found = list(label_errors(Setup(composed("+experiment=optpo", *overrides))))
    assert [message in text for text in found] == ([True] if message else [])
    assert list(label_errors(Setup(composed(*overrides)))) == []  # any other sampler takes any reward


def test_path_counting_does_not_go_with_a_majority():
    with pytest.raises(ConfigError, match="OptPoSampler ends a prompt's sampling by more than its counts"):
        check_config(composed("sampler=optpo", "selection=all"))


def test_a_misspelt_key_of_a_mask_is_found():
    with pytest.raises(ConfigError, match=r"unknown key token_masks\.capo\.max_shfit; did you mean max_shift"):
        check_config(composed("token_masks=capo", "+token_masks.capo.max_shfit=1"))


def test_a_mask_that_models_the_output_embedding_needs_it_to_train():
    (found,) = (
        line for line in update_errors(Setup(composed("token_masks=capo", "parameters=lora"))) if "freezes" in line
    )
    assert found.endswith("use parameters=all")
    assert not [line for line in update_errors(Setup(composed("token_masks=capo"))) if "freezes" in line]
