"""How evaluate.py and prepare.py start. What they do, with the real engine: test_walkthrough.py, test_prepare.py."""

from __future__ import annotations

import subprocess
import sys

from tests.integration.conftest import ROOT


def test_a_wrong_command_line_ends_at_once(tmp_path):
    def started(program, *arguments):
        command = [sys.executable, str(ROOT / program), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)

    done = started("evaluate.py", "checkpoint=no/such/folder", "eval.num_samples=4")
    assert done.returncode == 1
    assert done.stderr.startswith("error: checkpoint=no/such/folder does not exist")
    for done in (started("evaluate.py", "eval.num_sample=4"), started("prepare.py", "num_sample=4")):
        assert done.returncode == 1
        assert "did you mean num_samples?" in done.stderr
    assert list(tmp_path.iterdir()) == []
