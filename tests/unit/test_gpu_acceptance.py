from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir

from ada_lightning.config.check import check_config
from ada_lightning.parallel.hardware import choose_hardware
from scripts import gpu_acceptance

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "gpu_acceptance.sh"
LINE = re.compile(r"^(PASS|FAIL|SKIP) +(\w+) +\d+s  (.+)$", re.MULTILINE)


@pytest.fixture
def run_script(tmp_path):
    return partial(_run_script, tmp_path / "logs")


def _run_script(logs, python, *points):
    environment = os.environ | {"PYTHON": str(python), "LOGS": str(logs)}
    return subprocess.run([SCRIPT, *points], capture_output=True, text=True, env=environment, check=False)


@pytest.fixture
def stand_in(tmp_path):
    """Writes a Python that answers as told, by point."""

    def write(body):
        path = tmp_path / "python"
        path.write_text(f'#!/bin/bash\npoint="$2"\n{body}\n')
        path.chmod(0o755)
        return path

    return write


def test_every_point_passes_fails_or_is_skipped_with_its_reason(run_script, stand_in):
    done = run_script(
        stand_in('echo chatter; echo "RESULT: about $point"; case $point in ipc) exit 3;; nccl) exit 77;; esac; exit 0')
    )
    found = {point: (verdict, reason) for verdict, point, reason in LINE.findall(done.stdout)}
    assert list(found) == list(gpu_acceptance.POINTS)
    assert found["ipc"] == ("FAIL", f"about ipc; see {run_script.args[0]}/ipc.log")
    assert "chatter" in (run_script.args[0] / "ipc.log").read_text()
    assert found["nccl"] == ("SKIP", "about nccl")
    assert all(found[point] == ("PASS", f"about {point}") for point in found if point not in ("ipc", "nccl"))
    assert done.returncode == 1
    assert "1 of 13 points FAILED" in done.stdout


def test_a_point_that_says_nothing_has_not_passed(run_script, stand_in):
    done = run_script(stand_in("exit 0"), "engine")
    assert LINE.findall(done.stdout) == [("FAIL", "engine", f"left with status 0; see {run_script.args[0]}/engine.log")]
    assert done.returncode == 1


def test_chosen_points_only(run_script, stand_in):
    done = run_script(stand_in('echo "RESULT: fine"'), "reload", "fsdp")
    assert [point for _, point, _ in LINE.findall(done.stdout)] == ["reload", "fsdp"]
    assert done.returncode == 0


def test_a_python_that_is_not_there_is_named(run_script):
    done = run_script("/no/such/python")
    assert done.returncode == 2
    assert "/no/such/python" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="about a machine without a GPU")
def test_without_a_gpu_everything_is_skipped(run_script):
    done = run_script(sys.executable)
    found = LINE.findall(done.stdout)
    assert [point for _, point, _ in found] == list(gpu_acceptance.POINTS)
    assert {(verdict, reason) for verdict, _, reason in found} == {
        ("SKIP", "no GPU: torch.cuda.is_available() is False")
    }
    assert done.returncode == 0


@pytest.mark.parametrize("point", ["run", "sleeping_run", "paper", "fsdp"])
def test_the_runs_have_settings_that_go_together(point, monkeypatch, tmp_path):
    """Composed and checked here, with a data file as the point writes it."""
    commands = []
    monkeypatch.setattr(gpu_acceptance, "trained", lambda name, overrides, launcher=(): commands.append(overrides))
    monkeypatch.setattr(gpu_acceptance, "need_gpus", lambda number: number)
    monkeypatch.setattr("ada_lightning.parallel.hardware.count_gpus", lambda: 2)
    try:
        gpu_acceptance.POINTS[point]()
    except gpu_acceptance.SkippedError as skipped:
        pytest.skip(str(skipped))
    (overrides,) = commands
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        cfg = compose("train", overrides)
    choose_hardware(cfg.trainer)
    check_config(cfg)


def test_an_unknown_point_is_named():
    with pytest.raises(SystemExit, match="name one point of: hardware, engine"):
        gpu_acceptance.main(["speed"])
