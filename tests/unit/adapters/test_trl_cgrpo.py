"""What was measured of trl-cgrpo is what its rule and its group mean amount to, and the command measures it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from statistics import fmean, pstdev

import pytest

from research.benchmarks import trl_cgrpo
from research.benchmarks.trl_cgrpo import GRID, PASS_RATES, End, figures

ROOT = Path(__file__).resolve().parents[3]
FOUND = json.loads((ROOT / "docs" / "studies" / "trl" / "cgrpo.json").read_text())
ROWS = {(row["method"], row.get("scale_rewards", "")): row for row in FOUND["rows"]}
FOLDER = os.environ.get("TRL_CGRPO", "")
"""Where the package and its TRL are, as the command's ``--package``."""


def group_mean(outcomes: tuple[int, ...], scale: str) -> End:
    """TRL's advantages of what was drawn."""
    mean = fmean(outcomes)
    spread = math.sqrt(pstdev(outcomes) ** 2 * len(outcomes) / max(len(outcomes) - 1, 1)) + 1e-4
    return End(
        outcomes, {at: (right - mean) / (spread if scale == "group" else 1) for at, right in enumerate(outcomes)}
    )


def ends(stops, scale):
    """Of a rule that is asked at each budget."""
    found = set()
    for order in product((0, 1), repeat=GRID[-1]):
        number = next((k for k in GRID if stops(order[:k])), GRID[-1])
        found.add(order[:number])
    return [group_mean(outcomes, scale) for outcomes in sorted(found)]


@pytest.mark.parametrize("scale", trl_cgrpo.SCALES)
@pytest.mark.parametrize(
    ("method", "stops"),
    [
        ("trl-cgrpo, first_success", any),  # its thresholds, calibrated on all pass rates, let any success pass
        ("trl-cgrpo, pass_rate", any),
        ("trl-cgrpo, aps", lambda outcomes: len(set(outcomes)) == 1),
        ("GRPO, 8 responses", lambda outcomes: False),
    ],
)
def test_what_the_trainer_does_is_the_group_mean_of_what_its_rule_kept(method, stops, scale):
    wanted = figures(ends(stops, scale))
    row = ROWS[method, scale]
    assert row["responses"] == pytest.approx(wanted["responses"], rel=1e-9)
    assert row["update"] == pytest.approx(wanted["update"], rel=1e-5)  # the trainer's are of single precision


def test_ours_follow_what_they_state():
    ours = [row for row in FOUND["rows"] if "stated" in row]
    assert len(ours) == 4
    for row in ours:
        assert row["update"] == pytest.approx(row["stated"], rel=1e-9)


def test_the_figures_are_of_every_pass_rate():
    assert FOUND["pass_rates"] == list(PASS_RATES)
    assert FOUND["versions"]["trl"] == "1.14.2"


@pytest.mark.skipif(not FOLDER, reason="TRL_CGRPO names no folder with trl-cgrpo and its TRL")
def test_the_command_measures_it_again(tmp_path):
    command = [sys.executable, "-m", "research.benchmarks.trl_cgrpo", "--package", FOLDER]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"BENCHMARK_FIGURES": str(tmp_path)}, check=True)
    again = json.loads((tmp_path / "studies" / "trl" / "cgrpo.json").read_text())["rows"]
    assert again == FOUND["rows"]


def test_a_folder_without_the_package_is_refused_with_the_way_to_it(tmp_path):
    command = [sys.executable, "-m", "research.benchmarks.trl_cgrpo", "--package", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "pip install --no-deps --target" in run.stderr
