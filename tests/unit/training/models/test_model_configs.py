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


def test_names_mean_what_they_say():
    assert isinstance(load("qwen2_5_math_1_5b"), Pretrained)
    assert load("smollm2_135m_hub").path == "HuggingFaceTB/SmolLM2-135M-Instruct"


@pytest.mark.parametrize(("name", "cls"), [("tiny", TinyLlama), ("smollm2_135m", SmolLM2Wheel)])
def test_defaults_in_the_file_are_those_of_the_class(name, cls):
    assert load(name).folder == cls().folder
