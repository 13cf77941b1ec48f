"""How many threads the programs take where nobody says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_as_many_as_cores_that_the_process_may_use():
    """A container or a batch system gives a process some of the machine's cores."""
    code = (
        "import os; os.cpu_count = lambda: 64; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        "import ada_lightning.programs.start; print(os.environ['OMP_NUM_THREADS'])"
    )
    assert printed(code) == "1"


@pytest.mark.parametrize(
    ("said", "expected"),
    [({}, "3000"), ({"OMP_WAIT_POLICY": "active"}, "None"), ({"GOMP_SPINCOUNT": "7"}, "7")],
)
def test_threads_spin_briefly_unless_somebody_says_how_they_wait(said, expected):
    code = "import os, ada_lightning.programs.start; print(os.environ.get('GOMP_SPINCOUNT'))"
    assert printed(code, **said) == expected


def printed(code, **variables):
    """What a fresh Python prints, which nobody told of threads but by these variables."""
    untold = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=untold | variables, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
