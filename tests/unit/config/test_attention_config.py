"""The shipped attention backends: what composes, and what cannot work together."""

from __future__ import annotations

import pytest
from hydra.utils import instantiate

from ada_lightning.config.check import check_config
from tests.unit.config.composing import composed, problems


def test_the_default_shares_prompts_on_any_device():
    cfg = composed()
    check_config(cfg)
    attention = instantiate(cfg.attention)
    assert cfg.data.share_prompts
    assert attention.shares_prompts
    assert not attention.needs_gpu


def test_flex_composes_for_a_gpu_only():
    check_config(composed("attention=flex", "trainer=gpu"))
    assert problems("attention=flex") == [
        "attention: FlexAttention trains on a GPU only, and trainer.accelerator = cpu; use attention=sdpa"
    ]


def test_flash_names_everything_in_its_way_at_once(monkeypatch):
    found = problems("attention=flash")
    assert [problem.split(";")[0] for problem in found] == [
        "attention: the package flash-attn is not installed",
        "attention: FlashAttention trains on a GPU only, and trainer.accelerator = cpu",
        "attention: FlashAttention cannot share a prompt among responses",
    ]
    monkeypatch.setattr("ada_lightning.training.attention.flash.find_spec", lambda name: name)
    check_config(composed("attention=flash", "trainer=gpu", "data.share_prompts=false"))


@pytest.mark.parametrize("key", ["attention", "policy.attention"])
def test_a_backend_cannot_be_given_in_two_places(key):
    if key == "policy.attention":
        assert "policy.attention is filled in by the program" in problems("+policy.attention=flex")[0]
    else:
        assert "unknown key attention.window" in problems("+attention.window=8")[0]
