import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ada_lightning.analysis.report.curves import Axis, curve
from ada_lightning.analysis.report.method import group_runs
from ada_lightning.analysis.report.page import as_html, as_json, make_report
from ada_lightning.analysis.report.run import load_run
from ada_lightning.programs import report as program
from ada_lightning.run.run_dir import RunDir
from tests.unit.analysis.report.small_folder import make_run, write_responses, write_run

ROOT = Path(__file__).resolve().parents[4]
REAL = Path(__file__).parent / "real_run"
ATTACK = '<script>alert(1)</script><img src=x onerror=alert(2)> & "quoted" {{ 7 * 7 }}'


def page_of(*runs, **kwargs):
    return as_html(make_report(group_runs(runs), title="a title", **kwargs))


def test_what_a_model_wrote_stays_text(tmp_path):
    runs = [make_run(tmp_path / name, experiment=f"<b>xss{name}</b>", settings={"x": f"<i>xss{name}"}) for name in "ab"]
    for run in runs:
        write_responses(run.folder, 0, {f"<u>{ATTACK}": [(ATTACK, 1.0), (ATTACK * 20, 0.0)]})
    page = page_of(*runs)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert re.findall(r"<(?:script|img|b>xss|i>xss|u>)", page) == []
    assert "{{ 7 * 7 }}" in page
    assert "default-src 'none'" in page
    assert re.findall(r"(?:src|href)=\"(?!#)[^\"]*|url\((?!#)[^)]*|@import[^;]*", page) == []  # needs no other file
    program.main([str(run.folder) for run in runs] + ["--output", str(tmp_path / "page.html")])
    assert "alert(1)" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_same_prompt_stands_side_by_side_at_the_nearest_step(tmp_path):
    a, b = (make_run(tmp_path / name, settings={"method": name}) for name in "ab")
    write_responses(a.folder, 0, {"shared": [("early of a", 0.0)], "only a": [("x", 1.0)]})
    write_responses(a.folder, 10, {"shared": [("late of a", 1.0)]})
    write_responses(b.folder, 9, {"shared": [("late of b", 1.0)], "only b": [("y", 1.0)]})
    write_responses(b.folder, 20, {"shared": [("latest of b", 1.0)]})
    (comparison,) = make_report(group_runs([a, b]), title="", num_samples=1).samples
    assert comparison.prompt == "shared"
    assert [answers.shown[0].text for answers in comparison.answers if answers] == ["late of a", "late of b"]


def test_held_out_prompts_come_from_the_last_evaluation(tmp_path):
    runs = [make_run(tmp_path / name, settings={"method": name}) for name in "ab"]
    for run in runs:
        write_responses(run.folder, 0, {"training": [("x", 1.0)]})
        for step in (2, 10):
            write_responses(run.folder, step, {"held out": [(f"at {step}", 1.0)]}, stage="eval")
    heldout, training = make_report(group_runs(runs), title="", num_samples=4).samples
    assert (heldout.is_heldout, heldout.prompt, training.prompt) == (True, "held out", "training")
    assert [answers.shown[0].text for answers in heldout.answers if answers] == ["at 10", "at 10"]
    assert all(answers.shown[0].is_truncated for answers in heldout.answers if answers)


def test_a_run_that_has_just_started_has_a_page(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "metrics.csv").write_text("step\n")
    page = page_of(load_run(RunDir(run)))
    assert "no step is finished yet" in page
    assert "no summary.json: in progress, or killed" in page
    assert "No run has a held-out evaluation yet." in page


def test_trouble_is_told(tmp_path):
    """Counts of a step add up; running counts do not, and a fall of theirs means that a resume counted anew."""
    counts = zip((3, 0, 0, 2), (1, 1, 0, 2), (0, 1, 1, 2), strict=True)
    names = "rollout/grader_failures", "rollout/engine_restarts", "train/skipped_updates"
    metrics = [dict(zip(names, of_step, strict=True)) for of_step in counts]
    metrics[0]["train/loss"] = math.nan
    measured = {"callbacks": {"evaluation": {"num_prompts": 8}}}
    runs = [
        make_run(tmp_path / "a", metrics=metrics, summary={"status": "failed", "error": "ValueError: no <memory>"}),
        make_run(tmp_path / "b", settings=measured, summary={"status": "finished"}),
    ]
    texts = {note.text for note in make_report(group_runs(runs), title="").notes}
    assert texts == {
        "held-out figures are not measured alike: callbacks.evaluation.num_prompts differ",
        "failed after 4 steps: ValueError: no <memory>",
        "responses whose grader failed: 5 (rollout/grader_failures)",
        "engine restarts: 3 (rollout/engine_restarts)",
        "updates skipped: 2 (train/skipped_updates)",
        "train/loss is not a number in 1 of 5 rows; they are left out",
    }


def test_evaluations_on_other_held_out_prompts_are_left_out_and_told(tmp_path):
    heldout = {0: 0.1, 2: 0.9, 3: 0.3, 4: 0.4}
    run = make_run(tmp_path / "a", heldout=heldout, summary={"status": "finished", "heldout_since": 3})
    assert curve(run, "eval/avg_at_4", Axis.STEPS).y.tolist() == [0.3, 0.4]
    said = "held-out prompts changed when the run was continued: evaluations before update 3 are left out"
    assert [note.text for note in make_report(group_runs([run]), title="").notes] == [said]


def test_the_budget_is_drawn_where_a_run_keeps_a_prompt_log(tmp_path):
    runs = [make_run(tmp_path / name, settings={"method": name}) for name in "ab"]
    rows = ["step,pass_rate,num_drawn,tokens", "0,0,32,300", "1,0.5,8,90", "1,,8,90", "2,1,4"]
    (runs[0].folder / "prompts.csv").write_text("\n".join(rows))
    names = [drawing.name for drawing in make_report(group_runs(runs), title="").prompts]
    assert names == ["budget_by_difficulty", "pass_rates_1"]


def test_a_real_run(tmp_path):
    """Thirty steps of ada_seq_balance, as they were left in its folder."""
    other = tmp_path / "other"
    shutil.copytree(REAL, other)
    config = (REAL / "config.yaml").read_text()
    assert "samples_per_round: 4" in config
    (other / "config.yaml").write_text(config.replace("samples_per_round: 4", "samples_per_round: 8"))
    made = make_report(group_runs([load_run(RunDir(REAL)), load_run(RunDir(other))]), title="real")
    assert [setting.key for setting in made.differing] == ["sampler.samples_per_round"]
    numbers = as_json(made)
    first = numbers["methods"][0]
    summary = json.loads((REAL / "summary.json").read_text())
    heldout = summary["heldout"]["eval/avg_at_4"]
    assert first["runs"][0]["heldout_before"] == pytest.approx(heldout["before"])
    assert first["runs"][0]["heldout_after"] == pytest.approx(heldout["after"])
    assert first["runs"][0]["generated_tokens"] == summary["generated_tokens"]
    assert first["figures"]["signal_ratio"]["mean"] == pytest.approx(summary["signal_ratio_mean"])
    assert first["phase_seconds"] == pytest.approx(summary["seconds"])
    names = [f"heldout_by_{axis}" for axis in ("steps", "tokens", "seconds")]
    assert [drawing.name for drawing in made.drawings][:4] == [*names, "reward_by_steps"]
    assert made.samples


def test_the_program_writes_page_numbers_and_pictures(tmp_path, capsys):
    write_run(tmp_path / "runs" / "a", heldout={0: 0.1, 4: 0.3}, settings={"max_weight": math.inf, "k": 1})
    write_run(tmp_path / "runs" / "b", heldout={0: 0.1, 4: 0.2}, settings={"max_weight": 1.0, "k": 1})
    output = tmp_path / "out" / "page.html"
    program.main(["a", "b", "--runs-dir", str(tmp_path / "runs"), "--output", str(output), "--title", "A and B"])
    assert "held-out 0.100 -> 0.300" in capsys.readouterr().out
    assert "<h1>A and B</h1>" in output.read_text()
    numbers = json.loads((tmp_path / "out" / "page.json").read_text())
    assert numbers["level"] == 0.2
    assert numbers["differences"] == [{"key": "max_weight", "values": ["inf", 1.0]}]
    assert (tmp_path / "out" / "page_files" / "heldout_by_tokens.png").read_bytes().startswith(b"\x89PNG")


def test_wrong_arguments_end_in_a_message(tmp_path, capsys):
    with pytest.raises(SystemExit, match="error: nothing is not a folder"):
        program.main(["nothing", "--runs-dir", str(tmp_path)])
    with pytest.raises(SystemExit):
        program.main(["nothing", "--output", "page.pdf"])
    assert "must end in .html" in capsys.readouterr().err
    for level in ("nan", "inf", "much"):
        with pytest.raises(SystemExit):
            program.main(["runs", "--level", level])
        assert f"{level} is no level of avg@k; use a finite number" in capsys.readouterr().err


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.yaml", "a: [", r"config\.yaml cannot be read"),
        ("config.yaml", "text", r"config\.yaml holds no settings"),
        ("metrics.csv", "step,loss\n0,x\n", r"metrics\.csv cannot be read: could not convert string to float: 'x'"),
        ("metrics.csv", "loss\n0\n", r"metrics\.csv has no column `step`"),
        ("summary.json", "{", r"summary\.json cannot be read"),
        ("prompts.csv", "step,pass_rate\n0,1\n", r"prompts\.csv has no column 'num_drawn'"),
        ("prompts.csv", "step,pass_rate,num_drawn\n0,1,x\n", r"prompts\.csv, line 2 cannot be read"),
        ("responses/train/step_000000.parquet", "nonsense", r"step_000000\.parquet cannot be read as a table of resp"),
    ],
)
def test_a_broken_file_is_named(tmp_path, file, content, message):
    run = write_run(tmp_path / "run")
    (run / file).parent.mkdir(parents=True, exist_ok=True)
    (run / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        make_report(group_runs([load_run(RunDir(run))]), title="")


def test_a_report_loads_nothing_heavy():
    heavy = "{'torch', 'lightning', 'vllm', 'transformers', 'pandas', 'mlflow', 'matplotlib'}"
    code = f"import sys, report, ada_lightning.analysis.report.samples; print({heavy} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
