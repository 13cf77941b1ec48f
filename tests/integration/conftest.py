from __future__ import annotations

import csv
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.heap import settle_imports

ROOT = Path(__file__).parents[2]
SMALL = [
    "model=tiny",
    "reward=function",
    "reward.reward.path=tests.integration.graders.has_few_letters",
    "trainer.precision=32-true",
    "rollout.engine.dtype=float32",
    "rollout.engine.kv_cache_gib=0.05",
    "rollout.engine.max_num_seqs=32",
    "rollout.sampling.max_new_tokens=8",
    "data.prompts_per_step=4",
    "data.source.num_train=40",
    "data.source.num_heldout=8",
    "callbacks.evaluation.num_prompts=2",
    "callbacks.evaluation.every_n_steps=0",
    "callbacks.checkpoint.every_n_steps=0",
    "callbacks.preview.num_prompts=2",
    "callbacks.preview.num_samples=2",
    "optimizer.lr=1e-3",
    "num_steps=2",
]

ENGINE = "ada_lightning.rollout.engines.transformers_engine.TransformersEngine"
"""Starts in a moment, where vLLM takes seconds."""
WITHOUT_VLLM = (
    f"rollout.engine._target_={ENGINE}",
    "~rollout.engine.kv_cache_gib",
    "~rollout.engine.block_size",
    "~rollout.engine.enforce_eager",
)
"""Of a program, after :data:`SMALL`; runs in the process of the tests are told by the argument of ``train``."""
QUIET = ("~logger.mlflow", "~callbacks.curves", "~callbacks.sampling_plots", "~callbacks.sample_page")
"""Seconds of every run, and no part of most tests: pictures, a page of samples, MLflow."""


def rows(folder):
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def column(folder, name):
    return [float(row[name]) for row in rows(folder) if row.get(name)]


def logged_runs(store):
    """Runs of a store; the process's own tracking URI stays as it is, since other tests have theirs."""
    from mlflow import MlflowClient

    client = MlflowClient(store)
    return list(client.search_runs([experiment.experiment_id for experiment in client.search_experiments()]))


def wait_until(is_reached, *, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def members(group):
    """Living processes of a process group."""
    listing = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    lines = [line.split(maxsplit=2) for line in listing.splitlines()]
    return [line for line in lines if int(line[0]) == group and not line[1].startswith("Z")]


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """An MLflow database without runs. Making one takes MLflow seconds, a migration after another; copying it none."""
    from mlflow import MlflowClient

    file = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{file}").search_experiments()
    return file


@pytest.fixture
def store(tmp_path, empty_store):
    """URI of an MLflow database of the test's own."""
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path}/mlflow.db"


@pytest.fixture
def train(tmp_path, store):
    """Compose, check and run a small experiment in this process; returns its run folder.

    ``vllm`` is the engine that is configured; without it, the trained weights are sampled with transformers.
    ``everything`` keeps what a run draws and logs beside its files of figures, and its preview, a third of such a run.
    ``without`` leaves out keys of :data:`SMALL` that another part does not have.
    """
    from hydra import compose, initialize_config_dir

    from ada_lightning.config.check import check_config
    from ada_lightning.programs.training_run import Run
    from ada_lightning.run.run_dir import RunDir

    def small_train(
        *overrides, experiment="ada_seq_balance", name="run", everything=False, vllm=False, without=()
    ):  # fmt: skip
        folder = tmp_path / name
        quiet = () if everything else (*QUIET, "~callbacks.preview")
        left_out = [each for each in quiet if each not in overrides]  # once, or Hydra refuses
        with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
            cfg = compose(
                "train",
                [
                    f"+experiment={experiment}",
                    f"run_name={name}",
                    f"run_dir={folder}",
                    f"logger.mlflow.tracking_uri={store}",
                    *(each for each in SMALL if not each.startswith(tuple(without))),
                    *left_out,
                    *overrides,
                ],
            )
        check_config(cfg)
        if not vllm:
            cfg.rollout.engine = {"_target_": ENGINE, "_partial_": True, "max_num_seqs": 32, "dtype": "float32"}
        run_dir = RunDir(cfg.run_dir)
        run_dir.claim(resume=cfg.ckpt is not None, or_start=cfg.ckpt == "auto")
        Run(cfg, run_dir).fit()
        settle_imports()
        return folder

    return small_train
