"""From stored responses to a file of counts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ada_lightning.analysis.evaluation.report import write_results
from ada_lightning.analysis.evaluation.results import EvaluationPlan, set_folder
from ada_lightning.analysis.offline import JobSettings, ResponseStore
from ada_lightning.core.records import Grade
from ada_lightning.rollout.drawn import Draw, DrawnPrompt
from research.studies.group_signal import draw, rules
from research.studies.group_signal.draw import CountedDraw, check_same_prompts, counted
from research.studies.signal_loss import main
from tests.unit.analysis.offline.scripted_job import make_prompts

SAMPLING = {"max_new_tokens": 32, "temperature": 1.0, "top_p": 1.0, "top_k": -1}
SETTINGS = JobSettings(
    {"model": {"path": "/somewhere/m", "weights": "w"}, "seed": {"run": 3}, "dtype": "bfloat16", "num_samples": 4}
)
REWARDS = {"p0": (1.0, 0.0, None, 1.0), "p1": (0.0, 0.0, 0.0, 0.5)}
"""None: its grader failed."""


def write_evaluation(folder, *, grader_failure="as_zero", sets=("heldout",)):
    for name in sets:
        store = ResponseStore(set_folder(folder, name))
        store.claim(SETTINGS)
        prompts = make_prompts(2)
        store.append(
            [
                DrawnPrompt(position, prompt, tuple(_draws(REWARDS[prompt.prompt_id])))
                for position, prompt in enumerate(prompts)
            ]
        )
        store.release()
    plan = EvaluationPlan(4, 0.7, grader_failure, dict.fromkeys(sets))
    write_results(folder, plan, {"name": "e", "model": "m", "sampling": SAMPLING, "left_out": {}}, seed=0)


def _draws(rewards):
    for index, reward in enumerate(rewards):
        grade = Grade(None, failure="crash") if reward is None else Grade(reward)
        yield Draw(index, f"text {index}", 3 + index, index == 3, grade)


@pytest.mark.parametrize(("grader_failure", "graded"), [("as_zero", 4), ("exclude", 3)])
def test_responses_are_counted_as_the_evaluation_counts_them(tmp_path, grader_failure, graded):
    write_evaluation(tmp_path, grader_failure=grader_failure)
    found = counted(tmp_path)
    assert found["columns"] == ["prompt", "right", "graded", "tokens", "truncated"]
    assert found["prompts"] == [["p0", 2, graded, 18, 1], ["p1", 0, 4, 18, 1]]
    assert found["num_responses"] == 4


def test_an_evaluation_of_two_sets_is_refused(tmp_path):
    write_evaluation(tmp_path, sets=("heldout", "other"))
    with pytest.raises(ValueError, match=r"holds 2 sets \(heldout, other\); the study counts one"):
        counted(tmp_path)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The study's files in another folder, and an evaluate.py that has run."""
    monkeypatch.setattr(rules, "FOLDER", tmp_path / "counts")
    monkeypatch.setattr(draw, "ROOT", tmp_path)
    commands = []

    def evaluate(command, **options):
        commands.append(command)
        write_evaluation(tmp_path / "evaluations" / "signal_loss-trained")

    monkeypatch.setattr(subprocess, "run", evaluate)
    return commands


def test_a_draw_is_made_once_and_leaves_a_line_for_each_prompt(elsewhere, tmp_path):
    wanted = CountedDraw("trained", ("rollout.seed=3",), 2, 4)
    wanted.complete()
    wanted.complete()
    assert len(elsewhere) == 1
    assert elsewhere[0][0] == sys.executable
    assert {"rollout.seed=3", "eval.num_samples=4", "eval.sets.heldout.num_prompts=2"} <= set(elsewhere[0])
    text = wanted.file.read_text()
    assert '  ["p0", 2, 4, 18, 1],\n  ["p1", 0, 4, 18, 1]\n' in text
    content = json.loads(text)
    assert content["command"] == (
        "python -m research.studies.signal_loss --prompts 2 --responses 4 --draw trained rollout.seed=3"
    )
    assert content["versions"]["torch"]
    assert (content["weights"], content["seed"], content["dtype"]) == ("w", {"run": 3}, "bfloat16")
    assert str(tmp_path) not in text
    assert "/somewhere" not in text


def test_counts_of_another_command_are_kept(elsewhere):
    CountedDraw("trained", (), 2, 4).complete()
    with pytest.raises(ValueError, match=r"counts-trained.json was made by another command; move it away"):
        CountedDraw("trained", (), 2, 8).complete()


def test_models_have_to_be_asked_the_same(tmp_path):
    files = [tmp_path / name for name in ("a.json", "b.json")]
    for file, prompts in zip(files, (["p0", "p1"], ["p0", "p2"]), strict=True):
        file.write_text(json.dumps({"prompts": [[prompt, 1, 2, 3, 0] for prompt in prompts]}))
    check_same_prompts([files[0], files[0]])
    with pytest.raises(ValueError, match=r"b\.json counts other prompts than a\.json"):
        check_same_prompts(files)


def test_a_draw_needs_the_name_of_a_model(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["signal_loss", "--draw", "checkpoint=runs/x"])
    with pytest.raises(SystemExit):
        main()
    assert "--draw needs a name first: untrained or trained" in capsys.readouterr().err
