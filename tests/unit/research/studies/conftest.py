import pytest

from ada_lightning.training.models.pretrained import Pretrained
from research.studies.field import setting
from research.studies.field.sums import write


@pytest.fixture
def problem_files(tmp_path, monkeypatch):
    monkeypatch.setattr(setting, "ROOT", tmp_path)
    monkeypatch.setattr(setting, "TRAIN", tmp_path / "train.jsonl")
    monkeypatch.setattr(setting, "HELDOUT", tmp_path / "heldout.jsonl")
    monkeypatch.setattr(setting, "MODEL", tmp_path / "model")
    monkeypatch.setattr(Pretrained, "check", lambda self: None)
    held_out = write(setting.HELDOUT, size=setting.NUM_HELDOUT, seed=2)
    write(setting.TRAIN, size=setting.NUM_TRAIN, seed=1, apart_from=held_out)
    monkeypatch.chdir(tmp_path)
    return held_out
