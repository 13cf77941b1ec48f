"""Shipped losses and advantages compose, and what does not go together is said before anything runs."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import open_dict

from ada_lightning.config.check import check_config
from ada_lightning.training.losses import (
    BinaryKl,
    CispoLoss,
    ClippedPolicyLoss,
    DivergencePolicyLoss,
    GspoLoss,
    PromptMeanReduction,
    RaftLoss,
    ReinforceLoss,
    ResponseMeanReduction,
    SequenceTruncation,
    TokenMeanReduction,
)
from tests.unit.config.composing import composed, problems

CONF = Path(__file__).resolve().parents[3] / "conf"
UNIFORM = ["sampler=uniform", "selection=all"]


DAPO_LOSS = {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 10.0, "importance_cap": 0.0, "kl_coef": 0.0}


@pytest.mark.parametrize(
    ("name", "cls", "reduction", "values"),
    [
        ("grpo", ClippedPolicyLoss, ResponseMeanReduction, {"clip_high": 0.2, "kl_coef": 0.04, "importance_cap": 0.0}),
        ("dr_grpo", ClippedPolicyLoss, PromptMeanReduction, {"clip_high": 0.2, "kl_coef": 0.0, "importance_cap": 0.0}),
        ("dapo", ClippedPolicyLoss, TokenMeanReduction, DAPO_LOSS),
        ("gspo", GspoLoss, ResponseMeanReduction, {"clip_low": 3e-4, "clip_high": 4e-4}),
        ("cispo", CispoLoss, TokenMeanReduction, {"clip_low": 1.0, "clip_high": 4.0}),
        ("reinforce", ReinforceLoss, object, {"importance_cap": 2.0}),
        ("raft_plus_plus", RaftLoss, ResponseMeanReduction, {"clip_high": 0.2}),
        ("divergence_tv", DivergencePolicyLoss, PromptMeanReduction, {"delta_low": 0.15, "ratio_cap": 3.0}),
        ("divergence_kl", DivergencePolicyLoss, PromptMeanReduction, {"delta_low": 0.05, "ratio_cap": 3.0}),
    ],
)
def test_a_loss_is_what_its_name_says(name, cls, reduction, values):
    loss = instantiate(composed(f"loss={name}").loss)
    assert type(loss) is cls
    assert isinstance(loss.reduction, reduction)
    assert {key: getattr(loss, key) for key in values} == values


def test_dapo_trains_with_the_published_loss():
    assert composed("+experiment=dapo").loss == composed("loss=dapo").loss
    loss = instantiate(composed("+experiment=dapo").loss)
    assert {key: getattr(loss, key) for key in DAPO_LOSS} == DAPO_LOSS


@pytest.mark.parametrize(
    ("experiment", "dual_clip"),
    [
        ("ada_seq_balance_official", 10.0),
        ("ada_seq_balance_paper_v3", math.inf),
        ("ada_est_ema_implicit", math.inf),
        ("ada_est_ema_paper", math.inf),
    ],
)
def test_what_is_as_published_corrects_nothing_for_the_engine(experiment, dual_clip):
    loss = instantiate(composed(f"+experiment={experiment}").loss)
    assert isinstance(loss, ClippedPolicyLoss)
    assert (loss.importance_cap, loss.dual_clip) == (0.0, dual_clip)


def test_raft_plus_plus_as_in_its_code_is_a_few_settings_away():
    header = (CONF / "experiment" / "raft_plus_plus.yaml").read_text().partition("defaults:")[0]
    settings = re.findall(r"[\w./]+=[\w.]*\w", header.partition("As its code has it")[2].replace("\n# ", " "))
    cfg = composed("+experiment=raft_plus_plus", *settings)
    check_config(cfg)
    loss = instantiate(cfg.loss)
    assert isinstance(loss.reduction, TokenMeanReduction)
    assert cfg.selection._target_.endswith("AllSelection")
    assert (loss.clip_high, loss.kl_coef, loss.entropy_coef, loss.importance_cap) == (0.2, 0.001, 0.001, 0.0)


def test_parts_of_a_loss_are_choices():
    loss = instantiate(composed("loss=cispo", "loss/importance=sequence_truncation", "loss/reduction=constant").loss)
    assert isinstance(loss.importance, SequenceTruncation)
    assert isinstance(instantiate(composed("loss=divergence_kl").loss).divergence, BinaryKl)
    assert isinstance(instantiate(composed("loss=gspo").loss).importance, SequenceTruncation)


@pytest.mark.parametrize(
    "overrides",
    [
        [*UNIFORM, "advantage=batch_whitened", "loss=reinforce"],
        [*UNIFORM, "advantage=gdpo", "reward=weighted"],
        [*UNIFORM, "advantage=gdpo", "reward=function", "reward.reward.path=tests.integration.graders.has_few_letters"],
        ["sampler=uniform", "selection=positives", "advantage=accepted", "loss=raft_plus_plus"],
        ["sampler=uniform", "selection=positives", "advantage=official", "loss=raft_plus_plus"],
    ],
)
def test_what_goes_together_passes(overrides):
    check_config(composed(*overrides))


def test_gdpo_needs_a_reward_with_components():
    (problem,) = problems(*UNIFORM, "advantage=gdpo", "reward=exact_match")
    assert problem.startswith(
        "advantage: GdpoAdvantage needs the components of a reward, and reward.reward = ExactMatch"
    )
    assert "use reward=weighted" in problem


def test_gdpo_names_components_that_the_reward_does_not_have():
    (problem,) = problems(*UNIFORM, "advantage=gdpo", "reward=weighted", "+advantage.weights.length=1.0")
    assert problem.startswith("advantage.weights.length: the reward has no component length; it has correct, format;")


def test_gdpo_knows_components_of_components():
    cfg = composed(*UNIFORM, "advantage=gdpo", "reward=weighted")
    with open_dict(cfg):
        cfg.advantage.weights["correct/units"] = 0.5
    check_config(cfg)


def test_gdpo_reports_bad_weights_before_the_run():
    (problem,) = problems(*UNIFORM, "advantage=gdpo", "reward=weighted", "advantage.weights.format=nan")
    assert problem == "advantage.weights.format=nan is no number, write a finite one"


@pytest.mark.parametrize("name", ["grpo", "rloo", "max_rl", "exact", "reinforce_plus_plus", "batch_whitened"])
def test_advantages_that_compare_do_not_go_with_positives_alone(name):
    (problem,) = problems("sampler=uniform", "selection=positives", f"advantage={name}")
    assert problem.startswith("selection: PositivesSelection keeps no negative, and advantage")
    assert problem.endswith("use advantage=accepted, or selection=all")


def test_whitening_does_not_hide_an_estimator_from_the_other_checks():
    overrides = ["advantage=batch_whitened", "selection=all", "sampler=uniform", "reward.reward.binary=false"]
    inner = [
        "advantage.advantage._target_=ada_lightning.methods.advantages.ExactAdvantage",
        "~advantage.advantage.normalize_std",
    ]
    objective = "+advantage.advantage.objective={_target_: ada_lightning.methods.objectives.LogObjective}"
    (problem,) = problems(*overrides, *inner, objective)
    assert "advantage.advantage = ExactAdvantage is for rewards of 0 and 1" in problem


def test_settings_of_a_loss_are_checked_before_the_run():
    (problem,) = problems("loss=clipped", "loss.dual_clip=0.5")
    assert problem == "loss: loss.dual_clip must be above 1 (.inf sets no bound); got 0.5"
    (problem,) = problems("loss=divergence_tv", "+loss.importance_cap=2.0")
    assert problem.startswith("unknown key loss.importance_cap")
    (problem,) = problems("loss=cispo", "loss/importance=sequence_rejection", "loss.importance_cap=0.9")
    assert problem.startswith("loss: loss.importance_cap = 0.9 rejects everything")
