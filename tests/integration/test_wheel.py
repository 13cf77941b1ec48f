"""The built wheel in an environment of its own, far from the checkout: what a user of ``pip install`` has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.integration.conftest import QUIET, ROOT, SMALL, WITHOUT_VLLM, column

OPTIONS = [word for word in SMALL if not word.startswith(("rollout.engine.kv_cache_gib", "reward.reward.path"))]
MINE = """# @package _global_
# Seq-balance with a callback of the package.
defaults:
  - override /sampler: balance
experiment_name: mine
callbacks:
  lengths_again:
    _target_: ada_lightning.callbacks.response_log.ResponseLengths
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel, and the folder of programs of an environment that has it and the tests' own dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", symlinks=True)
    place = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    own = Path(sysconfig.get_path("purelib", "venv", vars=place))
    # A line for the folder: .pth files in it, such as that of an editable install, are not read.
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    programs = folder / "venv" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", "--ignore-installed", str(wheel)], check=True, capture_output=True)
    return wheel, programs


@pytest.fixture
def run(installed, tmp_path):
    """Run a program of the environment in an empty folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def start(program, *arguments):
        command = [str(installed[1] / program), *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return start


def test_the_wheel_has_the_callbacks_and_the_configuration_inside_and_nothing_beside(installed):
    with zipfile.ZipFile(installed[0]) as archive:
        names = set(archive.namelist())
    inside = {
        f"ada_lightning/{folder}/{file.relative_to(ROOT / folder).as_posix()}"
        for folder in ("callbacks", "conf")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".py", ".yaml", ".j2")
    }
    assert inside <= names
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"ada_lightning"}


@pytest.mark.long
@pytest.mark.vllm
def test_the_commands_of_the_first_page_work_in_an_empty_folder(installed, run, tmp_path):
    shutil.copy(ROOT / "tests" / "integration" / "graders.py", tmp_path / "my_reward.py")
    (tmp_path / "my_conf" / "experiment").mkdir(parents=True)
    (tmp_path / "my_conf" / "experiment" / "mine.yaml").write_text(MINE)
    reward = "reward.reward.path=my_reward.has_few_letters"
    options = [*OPTIONS, *WITHOUT_VLLM, *QUIET, reward, "run_name=first"]
    out = run("ada", "train", "--config-dir", "my_conf", "+experiment=mine", *options)
    assert "held-out avg@4:" in out
    folder = tmp_path / "runs" / "first"
    assert json.loads((folder / "summary.json").read_text())["policy_version"] == 2
    assert max(column(folder, "train/grad_norm")) > 0
    command = f"# ada train --config-dir={tmp_path}/my_conf +experiment=mine "
    assert (folder / "config.yaml").read_text().startswith(command)
    measured = run("ada", "evaluate", "checkpoint=runs/first", "trust=true", "eval.num_samples=2", "mlflow=null")
    assert (tmp_path / "evaluations" / "first-step_000002-heldout" / "results.json").exists(), measured
    assert "held-out" in run("ada", "report", "runs/first")
    assert "runs/first" in run("ada", "audit", "runs/first")
    run("ada", "export", "runs/first")
    (exported,) = (tmp_path / "exported").iterdir()
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= {x.name for x in exported.iterdir()}
    of_training = ("trainer.", "callbacks.", "optimizer.", "num_steps=", "data.prompts_per_step=")
    drawn = [word for word in OPTIONS if not word.startswith(of_training)]
    run("ada", "prepare", "band=hard", "run_name=first", "num_samples=8", *drawn, *WITHOUT_VLLM, reward)
    assert (tmp_path / "prepared" / "first" / "prompts.parquet").exists()
    assert run("ada", "--version") == f"ada-lightning {installed[0].name.split('-')[1]}\n"
