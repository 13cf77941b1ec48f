"""The calculator's study: runs that would start, GRPO with as many tokens as ours, and a table of both."""

from __future__ import annotations

import json

import pytest

from research.studies import calculator
from research.studies.runs import StudyRun


def written(run, *, held_out, tokens):
    """A row as :meth:`StudyRun.measured` makes it."""
    spent = {"generated_tokens": tokens, "trained_tokens": tokens / 2, "updates": 30, "seconds": 120.0}
    curve = [{"held_out": 0.25, **dict.fromkeys(spent, 0.0)}, {"held_out": held_out, **spent}]
    return {"overrides": list(run.overrides), "seed": run.seed, "curve": curve}


@pytest.fixture
def study(tmp_path, monkeypatch):
    """The study with runs that end at once; returns the names of those that were trained."""
    trained = []
    monkeypatch.setattr(calculator, "FILE", tmp_path / "runs.jsonl")
    monkeypatch.setattr(StudyRun, "train", lambda run, environment: trained.append((run.name, environment)))
    monkeypatch.setattr(StudyRun, "is_done", lambda run: True)
    levels = {calculator.OURS: 0.75, calculator.GRPO: 0.65}

    def measured(run):
        method = run.label
        return written(run, held_out=levels[method] + run.seed / 100, tokens=1000.0 + run.seed)

    monkeypatch.setattr(StudyRun, "measured", measured)
    return trained


def test_every_run_would_start_and_grpo_ends_with_our_tokens(composed):
    ours = calculator.our_run(1)
    cfg = composed(ours)
    assert (cfg.num_steps, cfg.data.source.num_heldout >= cfg.callbacks.evaluation.num_prompts) == (30, True)
    grpo = calculator.grpo_run(1, written(ours, held_out=0.5, tokens=1234.0))
    cfg = composed(grpo)
    assert (cfg.callbacks.budget.max_generated_tokens, cfg.sampler.group_size) == (1234, 4)
    assert cfg.environment.path.endswith(".Calculator")


def test_one_run_at_a_time_in_an_order_and_what_is_known_is_not_trained_again(study, capsys):
    calculator.main(["--threads", "1"])
    names = [name for name, _ in study]
    assert names == [f"{method}-{seed}" for seed in (0, 1, 2) for method in (calculator.OURS, calculator.GRPO)]
    assert {environment["OMP_NUM_THREADS"] for _, environment in study} == {"1"}
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    _, ours, grpo = zip(*([cell.strip() for cell in line.split("|")[1:4]] for line in printed), strict=True)
    assert ours == (
        *("`ada_seq_balance`", "---", "0.250", "0.760", "+0.510", "+0.100"),
        *("1,001", "500", "30", "2", "3"),
    )
    assert grpo[-6:] == ("", "1,001", "500", "30", "2", "3")
    calculator.main(["--threads", "1"])
    assert len(study) == 6
    assert len([json.loads(line) for line in calculator.FILE.read_text().splitlines()]) == 6


def test_a_study_that_was_stopped_tells_of_the_seeds_that_both_have(study, capsys):
    results = calculator.Results(calculator.FILE)
    calculator.train_missing([calculator.our_run(0), calculator.our_run(1)], results, num_jobs=1)
    alone = "0.250 -> 0.750 (seed 0, 1,000 tokens), 0.250 -> 0.760 (seed 1, 1,001 tokens)"
    assert calculator.table() == f"No seed of both methods yet. `ada_seq_balance` alone: {alone}.\n"
    calculator.train_missing([calculator.grpo_run(0, results.row(calculator.our_run(0)))], results, num_jobs=1)
    calculator.main(["--report-only"])
    printed = capsys.readouterr().out
    assert "| gain | +0.500 |" in printed
    assert "| over GRPO | +0.100 |" in printed
    assert "| tokens drawn | 1,000 |" in printed
