"""A setting that is looked for in the wrong place, or by the name that it has in TRL or verl, is found."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from ada_lightning.config.composition import composed
from ada_lightning.config.generated import CONFIG_DIR
from ada_lightning.config.keys import FAMILIAR
from ada_lightning.config.overrides import override_errors


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("group_size=8", "sampler.group_size"),
        ("learning_rate=1e-5", "optimizer.lr"),
        ("optimizer.learning_rate=1e-5", "optimizer.lr"),
        ("loss.kl=0.1", "loss.kl_coef"),
        ("output_dir=there", "run_dir"),
    ],
)
def test_the_way_out_names_the_setting(line, meant):
    assert override_errors(["+experiment=grpo", line], CONFIG_DIR, "train") == [
        f"unknown key {line.partition('=')[0]}; did you mean {meant}?"
    ]


def test_a_name_that_stands_in_many_places_leads_nowhere():
    (error,) = override_errors(["+experiment=grpo", "_target_=x"], CONFIG_DIR, "train")
    assert "did you mean" not in error


def test_every_familiar_name_leads_to_a_setting():
    cfg = composed(["+experiment=grpo"])
    for name in sorted(FAMILIAR.values()):
        assert OmegaConf.select(cfg, name, default="nothing") != "nothing", name
