"""How evaluate.py starts. Evaluations with the real engine, of a trained run too: test_walkthrough.py."""

from __future__ import annotations

import subprocess
import sys

from tests.integration.conftest import ROOT


def test_a_wrong_command_line_ends_at_once(tmp_path):
    def evaluate(*arguments):
        command = [sys.executable, str(ROOT / "evaluate.py"), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)

    done = evaluate("checkpoint=no/such/folder", "eval.num_samples=4")
    assert done.returncode == 1
    assert done.stderr.startswith("error: checkpoint=no/such/folder does not exist")
    done = evaluate("eval.num_sample=4")
    assert done.returncode == 1
    assert "did you mean num_samples?" in done.stderr
    assert list(tmp_path.iterdir()) == []
