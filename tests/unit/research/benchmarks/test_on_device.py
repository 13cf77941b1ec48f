from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from research.benchmarks import report

PROGRAM = """
import argparse, time
from research.benchmarks.on_device import add_seconds, stopping_after
from research.benchmarks.report import save
parser = argparse.ArgumentParser()
add_seconds(parser)
with stopping_after(parser.parse_args().seconds):
    for part in range(1000):
        save("parts", rows=list(range(part)))
        {wait}
print("after the block")
"""
WAITS = {
    "ends": "time.sleep(0.01)",
    "does not end": """
        try:
            time.sleep(60)
        except BaseException:
            time.sleep(60)""",
}


def run(tmp_path, wait, *options):
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(wait=WAITS[wait]), *options],
        capture_output=True,
        text=True,
        env=os.environ | {"BENCHMARK_FIGURES": str(tmp_path)},
    )
    return done, time.monotonic() - started


@pytest.mark.parametrize(("wait", "said"), [("ends", "after the block\n"), ("does not end", "")])
def test_a_benchmark_ends_in_its_seconds_and_keeps_what_it_has(tmp_path, wait, said):
    done, seconds = run(tmp_path, wait, "--seconds", "1.5")
    assert (done.returncode, done.stdout) == (0, said)
    assert "stopped: the 1.5 seconds are over" in done.stderr
    assert seconds < 5
    rows = json.loads((tmp_path / "performance" / "parts.json").read_text())["rows"]
    assert rows == list(range(len(rows)))
    assert (len(rows) > 1) == (wait == "ends")
    assert [path.name for path in (tmp_path / "performance").iterdir()] == ["parts.json"]


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_seconds_that_are_none_are_refused(tmp_path, seconds):
    done, _ = run(tmp_path, "ends", f"--seconds={seconds}")
    assert done.returncode == 2
    assert f"must be a positive number of seconds; got {seconds}" in done.stderr


def test_figures_name_the_card_and_its_driver_where_there_is_one(tmp_path, monkeypatch):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 580.95.05, 81559'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    report._gpu.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = report.machine()
    report._gpu.cache_clear()
    assert (found["gpu"], found["driver"], found["gpu_memory_gib"]) == ("NVIDIA H100 80GB HBM3", "580.95.05", 80)
