from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from ada_lightning.training.models.pretrained import Pretrained
from ada_lightning.training.models.tiny import TinyLlama
from ada_lightning.training.models.wheel import SmolLM2Wheel

FOLDER = Path(__file__).resolve().parents[4] / "conf" / "model"


def load(name):
    return instantiate(OmegaConf.load(FOLDER / f"{name}.yaml"))


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_model_says_what_it_is_and_can_be_built(file):
    comment, target = file.read_text().splitlines()[:2]
    assert comment.startswith("# ")
    assert target.startswith("_target_: ")
    config = OmegaConf.load(file)
    if OmegaConf.is_missing(config, "path"):
        config.path = "org/name"
    assert callable(instantiate(config).prepare)


def test_names_mean_what_they_say():
    assert isinstance(load("smollm2_135m"), SmolLM2Wheel)
    assert isinstance(load("qwen2_5_math_1_5b"), Pretrained)
    assert load("smollm2_135m_hub").path == "HuggingFaceTB/SmolLM2-135M-Instruct"


def test_defaults_in_the_file_are_those_of_the_class(monkeypatch, tmp_path):
    monkeypatch.setenv("ADA_LIGHTNING_CACHE", str(tmp_path))
    assert load("tiny").folder == TinyLlama().folder
    assert load("smollm2_135m").folder == SmolLM2Wheel().folder
    assert load("tiny").folder.parent == tmp_path / "models"
