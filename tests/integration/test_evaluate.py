"""An evaluation with the real engine, from the command line, of a run that was just trained."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.integration.conftest import ROOT

pytestmark = pytest.mark.vllm


def test_a_trained_run_is_evaluated_continued_and_compared(train, programs, store, tmp_path):
    """Held-out prompts, reward and engine are those of the run; the second start finds everything drawn."""
    run_dir = train("num_steps=1", vllm=True)
    after = tmp_path / "after"
    command = ("evaluate.py", f"mlflow.tracking_uri={store}", f"checkpoint={run_dir}", f"run_dir={after}",
               "eval.num_samples=4")  # fmt: skip
    refused = programs.run(*command)
    assert refused.returncode == 1
    assert "reward.reward.path = 'tests.integration.graders.has_few_letters'" in refused.stderr
    command += ("reward.reward.path=tests.integration.graders.has_few_letters",)  # one's own function is named again
    done = programs.run(*command)
    assert done.returncode == 0, done.stderr
    results = json.loads((after / "results.json").read_text())
    assert results["sets"]["heldout"]["num_prompts"] == 8
    assert results["sampling"]["max_new_tokens"] == 8
    figures = results["sets"]["heldout"]["figures"]
    assert 0 < figures["response_tokens"]["mean"] <= 8
    assert figures["pass_at_1"]["mean"] == pytest.approx(figures["avg_at_4"]["mean"])
    assert (after / "engine.log").stat().st_size > 0
    assert (after / "mlflow_run_id").exists()
    again = programs.run(*command, f"compare={after}")
    assert again.returncode == 0, again.stderr
    assert "0 prompts to draw" in again.stdout
    comparison = json.loads((after / "comparison-with-after.json").read_text())
    assert comparison["average"]["figures"]["avg"]["difference"]["mean"] == 0
    assert comparison["average"]["figures"]["avg"]["p_value"] == 1


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
