"""How many threads the programs take where nobody says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_as_many_as_cores_that_the_process_may_use():
    """A container or a batch system gives a process some of the machine's cores."""
    code = (
        "import os; os.cpu_count = lambda: 64; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        "import ada_lightning.programs.start; print(os.environ['OMP_NUM_THREADS'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"
