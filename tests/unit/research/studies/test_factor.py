"""Runs of one's own compared as the studies compare theirs: the same figures, and clear refusals."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from research.studies import factor
from tests.unit.analysis.report.small_folder import write_run

DOCS = Path(__file__).parents[4] / "docs"
ROWS = DOCS / "studies/cost_benefit/fresh.jsonl"
OWN_ROWS = DOCS / "studies/own_rule/runs.jsonl"
FINISHED = {"status": "finished"}
SPENT = {
    "generated_tokens": "rollout/generated_tokens",
    "trained_tokens": "train/trained_tokens",
    "seconds": "time/update_s",
}
RISING = {0: 0.2, 1: 0.3, 2: 0.36, 3: 0.39, 4: 0.4}


def folder_of(place, method, row):
    """A run folder whose figures add up to the learning curve of a committed run."""
    curve = row["curve"]
    spent = [
        {column: after[cost] - before[cost] for cost, column in SPENT.items()} for before, after in pairwise(curve)
    ]
    heldout = {step: point["held_out"] for step, point in enumerate(curve)}
    name = place / f"{method}-{row['seed']}"
    settings = {"sampler": {"group_size": 4 + len(method)}}
    return write_run(
        name,
        experiment=method,
        seed=row["seed"],
        heldout=heldout,
        num_steps=len(spent),
        seconds=0.0,
        metrics=spent,
        settings=settings,
        summary=FINISHED,
    )


def two_methods(place, seeds=range(5), **mine):
    """Runs of GRPO, and of a method that needs half of the tokens."""
    for seed in seeds:
        write_run(place / f"grpo-{seed}", seed=seed, heldout=RISING, summary=FINISHED)
        given = {"heldout": RISING, "tokens": 50, "seed": seed, "summary": FINISHED, **mine}
        given["settings"] = {"sampler": {"n_max": 4}, **mine.get("settings", {})}
        write_run(place / f"mine-{seed}", experiment="mine", **given)
    return place


def refused(place, *words):
    with pytest.raises(SystemExit) as stop:
        factor.main([str(place), *(words or ("--against", "grpo"))])
    return str(stop.value)


def test_committed_runs_have_the_figures_of_the_page(tmp_path, capsys):
    wanted = {"grpo_n4-lr3e-05-p2": "grpo", "grpo_chosen_4_updates-lr0.0001-p16": "chosen"}
    for line in ROWS.read_text().splitlines():
        row = json.loads(line)
        if method := wanted.get(row["name"].rpartition("-")[0]):
            folder_of(tmp_path, method, row)
    factor.main([str(tmp_path), "--against", "grpo"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| chosen")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:6] == ["chosen", "5", "0.431", "+0.056 [+0.047, +0.064]", "2.07 [1.75, 2.45]", "1.25 [1.03, 1.50]"]


def test_the_page_shows_what_the_command_prints_of_its_runs(tmp_path, capsys):
    for line in OWN_ROWS.read_text().splitlines():
        row = json.loads(line)
        folder_of(tmp_path, row["method"], row)
    factor.main([str(tmp_path), "--against", "grpo"])
    printed = sorted(capsys.readouterr().out.splitlines())
    (shown,) = re.findall(r"^```text\n(.*?)^```$", (DOCS / "extending.md").read_text(), re.MULTILINE | re.DOTALL)
    assert sorted(shown.splitlines()) == printed


def test_half_of_the_tokens_is_a_factor_of_two(tmp_path, capsys):
    factor.main([str(two_methods(tmp_path)), "--against", str(tmp_path / "grpo-3")])
    printed = capsys.readouterr().out
    assert "| mine | 5 | 0.383 | +0.000 [+0.000, +0.000] | 2.00 [2.00, 2.00]" in printed
    assert "avg@4" in printed


def test_few_pairs_have_no_interval_and_a_seed_alone_does_not_count(tmp_path, capsys):
    two_methods(tmp_path, range(3))
    settings = {"sampler": {"n_max": 4}}
    write_run(
        tmp_path / "mine-8", experiment="mine", tokens=1, seed=8, heldout=RISING, summary=FINISHED, settings=settings
    )
    settings = {"trainer": {"accelerator": "gpu"}}
    write_run(tmp_path / "gpu", experiment="gpu", heldout=RISING, summary=FINISHED, settings=settings)
    factor.main([str(tmp_path), "--against", "grpo"])
    printed = capsys.readouterr().out
    assert "| mine | 3 | 0.383 | +0.000 | 2.00 |" in printed
    assert "mine: 3 pairs have no interval" in printed
    assert "mine: seeds 8 have no partner" in printed
    assert "gpu: 1 pair has no interval" in printed
    assert (
        "gpu: do not compare seconds, which are of other hardware or another engine (trainer.accelerator)." in printed
    )
    assert "mine: do not compare" not in printed


@pytest.mark.parametrize(
    ("mine", "reason"),
    [
        ({"summary": {"status": "interrupted"}}, "is not finished (interrupted)"),
        ({"heldout": {0: 0.2, 4: 0.4}}, "has 2 held-out evaluations"),
        ({"heldout": {}}, "held-out figures differ (grpo: eval/avg_at_4; mine: None)"),
        ({"heldout": {}, "metrics": [{"eval/avg_at_8": 0.5}] * 5}, "held-out figures differ"),
        ({"settings": {"model": {"path": "other"}}}, "model.path is (not set) in grpo and other in mine"),
        ({"settings": {"data": {"source": {"num_heldout": 9}}}}, "data.source.num_heldout is"),
        ({"settings": {"callbacks": {"evaluation": {"num_prompts": 9}}}}, "callbacks.evaluation.num_prompts is"),
        ({"settings": {"reward": {"reward": {"_target_": "numeric"}}}}, "reward.reward._target_ is"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, mine, reason):
    assert reason in refused(two_methods(tmp_path, **mine))


@pytest.mark.parametrize(
    "settings",
    [{"data": {"only": "half"}}, {"callbacks": {"evaluation": {"every_n_tokens": 9}}}, {"sampler": {"n_max": 9}}],
)
def test_what_a_method_may_change_is_compared(tmp_path, capsys, settings):
    factor.main([str(two_methods(tmp_path, settings=settings)), "--against", "grpo"])
    assert "2.00 [2.00, 2.00]" in capsys.readouterr().out


def test_wrong_names_and_seeds_are_refused(tmp_path):
    both = two_methods(tmp_path / "both")
    assert "is no method of these runs" in refused(both, "--against", "gpro")
    assert "The methods are: grpo, mine" in refused(both, "--against", "gpro")
    alone = write_run(tmp_path / "alone" / "a", heldout=RISING, summary=FINISHED)
    assert "there is nothing to compare it with" in refused(alone)
    apart = two_methods(tmp_path / "apart", range(1))
    write_run(apart / "again", seed=0, heldout=RISING, summary=FINISHED)
    assert "the same seed 0" in refused(apart)
    for seed in range(2):
        settings = {"sampler": {"n_max": seed}}
        folder = tmp_path / "seeds" / str(seed)
        write_run(folder, experiment=f"m{seed}", seed=seed, heldout=RISING, summary=FINISHED, settings=settings)
    assert "no seed in common" in refused(tmp_path / "seeds", "--against", "m0")
