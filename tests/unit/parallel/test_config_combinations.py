"""What does not go together with several processes, and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from ada_lightning.config.parallel import parallel_errors
from ada_lightning.config.setup import Setup
from ada_lightning.parallel.environment import Launch

CONF = Path(__file__).resolve().parents[3] / "conf"


def errors(*overrides):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", [*overrides, "rollout=vllm_process"])
    return list(parallel_errors(Setup(cfg), Launch("torchrun", 2, 1)))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("parameters=lora",), "parameters = LoraParameters needs weights that are whole in every process"),
        (("loss=flowrl",), "loss = FlowRlLoss needs weights that are whole"),
        (("sampler=gvm",), "sampler.gradient_norm = LmHeadNorm needs weights that are whole"),
    ],
)
def test_parts_that_need_whole_weights_are_refused_with_shards_and_taken_with_copies(overrides, message):
    two = ("trainer.devices=2", "trainer.num_nodes=1")
    (found,) = errors("trainer=fsdp", *two, *overrides)
    assert message in found
    assert "use trainer=ddp" in found
    assert errors("trainer=ddp", *two, *overrides) == []


def test_a_mask_that_models_the_update_trains_in_one_process():
    (found,) = errors("trainer=ddp", "trainer.devices=2", "trainer.num_nodes=1", "token_masks=capo")
    assert "train in one process with it" in found
    assert errors("trainer=ddp", "trainer.devices=2", "trainer.num_nodes=1", "token_masks=jackpot") == []
