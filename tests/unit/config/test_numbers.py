"""Numbers that no setting takes."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from ada_lightning.config.numbers import MAY_BE_INFINITE, number_errors
from tests.unit.config.composing import composed, problems

CONF = Path(__file__).resolve().parents[3] / "conf"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer.lr=1e999", "optimizer.lr=inf is infinite, write a finite number"),
        ("optimizer.weight_decay=inf", "optimizer.weight_decay=inf is infinite, write a finite number"),
        ("optimizer.betas=[0.9,nan]", "optimizer.betas.1=nan is no number, write a finite one"),
        ("policy.max_grad_norm=nan", "policy.max_grad_norm=nan is no number, write a finite one"),
        ("loss.clip_high=nan", "loss.clip_high=nan is no number, write a finite one"),
        ("rollout.sampling.temperature=inf", "rollout.sampling.temperature=inf is infinite, write a finite number"),
        ("rollout.positive_threshold=nan", "rollout.positive_threshold=nan is no number, write a finite one"),
        ("rollout.engine.kv_cache_gib=inf", "rollout.engine.kv_cache_gib=inf is infinite, write a finite number"),
        ("seed=-1", "seed=-1 is out of range: a seed is a whole number from 0 to 4294967295"),
        ("data.seed=4294967296", "data.seed=4294967296 is out of range: a seed is a whole number from 0 to 4294967295"),
    ],
)
def test_a_number_that_cannot_be_meant_is_refused_by_the_key_that_was_typed(override, message):
    assert problems(override) == [message]


@pytest.mark.parametrize(
    "override",
    ["policy.max_grad_norm=inf", "loss.dual_clip=inf", "callbacks.evaluation.every_n_tokens=inf", "seed=4294967295"],
)
def test_infinity_that_switches_a_limit_off_and_the_largest_seed_pass(override):
    assert number_errors(composed(override)) == {}


def test_every_setting_whose_shipped_comment_offers_infinity_takes_it():
    offered = {
        found[1]
        for file in CONF.rglob("*.yaml")
        for line in file.read_text(encoding="utf-8").splitlines()
        if (found := re.match(r"\s*(\w+): .*\.inf", line))
    }
    assert offered
    assert offered <= MAY_BE_INFINITE


def test_a_part_of_ones_own_may_mean_something_by_infinity_but_never_by_no_number():
    cfg = OmegaConf.create({"part": {"_target_": "my.Part", "limit": math.inf, "seed": -1, "share": math.nan}})
    assert number_errors(cfg) == {"part.share": "part.share=nan is no number, write a finite one"}


def test_a_schedule_ends_at_a_share_of_the_learning_rate():
    (found,) = problems("optimizer/schedule=cosine", "policy.schedule.final=2")
    assert "policy.schedule.final must be in [0, 1], a share of the learning rate; got 2" in found
