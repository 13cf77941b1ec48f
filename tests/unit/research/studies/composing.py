"""The configuration of a study's run, checked as train.py checks it."""

from hydra import compose, initialize_config_dir

from ada_lightning.config.check import check_config
from research.studies.runs import ROOT


def composed(run):
    overrides = [f"+experiment={run.method}", f"run_name={run.study}/{run.name}", *run.overrides]
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        cfg = compose("train", overrides=overrides)
    check_config(cfg)
    return cfg
