import pytest
from hydra import compose, initialize_config_dir

from ada_lightning.config.check import check_config
from ada_lightning.training.models.pretrained import Pretrained
from research.studies.field import fresh, setting
from research.studies.field.sums import write
from research.studies.runs import ROOT


@pytest.fixture
def composed():
    """Composes the configuration of a study's run and checks it as train.py does; ``check=False``: composes it."""

    def compose_run(run, *, check=True):
        overrides = [f"+experiment={run.experiment}", f"run_name={run.study}/{run.name}", *run.overrides]
        with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
            cfg = compose("train", overrides=overrides)
        if check:
            check_config(cfg)
        return cfg

    return compose_run


@pytest.fixture
def problem_files(tmp_path, monkeypatch):
    """Files of the field in a folder of their own; returns the held-out problems."""
    for module in (setting, fresh):
        monkeypatch.setattr(module, "ROOT", tmp_path)
        monkeypatch.setattr(module, "HELDOUT", tmp_path / "heldout.jsonl")
    monkeypatch.setattr(setting, "TRAIN", tmp_path / "train.jsonl")
    monkeypatch.setattr(setting, "MODEL", tmp_path / "model")
    monkeypatch.setattr(fresh, "PROBLEMS", tmp_path / "fresh.jsonl")
    monkeypatch.setattr(setting, "prepare_model", lambda: None)
    monkeypatch.setattr(Pretrained, "check", lambda self: None)
    setting.prepare()
    monkeypatch.chdir(tmp_path)
    return frozenset(write(tmp_path / "again.jsonl", size=setting.NUM_HELDOUT, seed=2))
