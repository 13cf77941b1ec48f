"""The tables of learning curves say what the runs' results say."""

import json

import pytest

from research.studies.field import tables
from research.studies.field.outcomes import BinOutcome, Effect
from research.studies.field.reach import Estimate
from research.studies.field.tune import Tuned

COSTS = ("generated_tokens", "trained_tokens", "seconds", "updates")


def line(slope):
    return [{**dict.fromkeys(COSTS, 10.0 * point), "avg_at_4": slope * point} for point in range(11)]


@pytest.fixture
def files(tmp_path, monkeypatch):
    for name in ("RUNS", "LEVERS", "SMOLLM2"):
        (tmp_path / name).touch()
        monkeypatch.setattr(tables, name, tmp_path / name)
    monkeypatch.setattr(tables, "HARD", tmp_path)
    (tmp_path / "heldout.jsonl").touch()


def test_methods_stand_beside_the_best_grpo_with_their_settings(files, monkeypatch):
    found = {"grpo_n4": {0: line(0.02), 1: line(0.02)}, "ada": {0: line(0.04), 1: line(0.04)}, "pods": {1: line(0.01)}}

    def tuned(method, results, *, on_first):
        return Tuned(1e-4, 8 if on_first else 16, 0.3)

    monkeypatch.setattr(tables, "tuned", tuned)
    monkeypatch.setattr(tables, "_part", lambda part: {"first": found, "second": found}[part])
    first, second, last = tables.field("first").splitlines()[2:]
    assert first.startswith("| `ada` | 0.360 (0.360 to 0.360) | +0.180 [+0.180, +0.180] | 2.00 [2.00, 2.00] |")
    assert first.endswith("| 2 | 0.0001, 8 |")
    assert tables.field("second").splitlines()[2].endswith("| 2 | 0.0001, 16 |")
    assert second.startswith("| `grpo_n4` | 0.180 (0.180 to 0.180) | +0.000 [+0.000, +0.000] | 1.00 | 1.00 |")
    assert last.startswith("| `pods` | 0.090 (0.090 to 0.090) | -0.090 | not reached | not reached | not reached | 1 |")


def test_levers_and_difficulty_carry_their_intervals(files, monkeypatch):
    gain = Estimate(0.02, -0.01, 0.05)
    saving = Estimate(0.9, 0.5, 1.2, is_bound=True)
    monkeypatch.setattr(tables, "_tuned_ones", list)
    monkeypatch.setattr(tables, "all_effects", lambda bases: [Effect("ada_n1", "as it is", 0.3, gain, saving, 0.5, 3)])
    row = "| `ada_n1` | as it is | 0.300 | +0.020 [-0.010, +0.050] | not reached | 50% | 3 |"
    assert row in tables.levers()
    gains = {"grpo_n4": Estimate(0.01, 0.0, 0.02), "ada_n1": gain}
    bins = [BinOutcome(0.0, 0.0, 7, 0.01, gains, gains), BinOutcome(0.0, 0.125, 9, 0.1, gains, gains)]
    monkeypatch.setattr(tables, "found_outcomes", lambda: bins)
    monkeypatch.setattr(tables, "selected", lambda: {"num_selected": 300, "num_prompts": 2047})
    text = tables.hard_prompts()
    both = "+0.010 [+0.000, +0.020] | +0.020 [-0.010, +0.050]; over `grpo_n4` +0.020 [-0.010, +0.050] |"
    assert f"| 0 | 7 | 0.010 | {both}" in text
    assert f"| 0 to 0.125 | 9 | 0.100 | {both}" in text
    assert "300 of 2047 problems were selected." in text


def test_the_price_of_training_a_token_is_in_generated_ones(files, monkeypatch):
    """A quarter trains, in half of the time of the rollouts: a trained token costs two generated ones."""

    class Rows:
        has = staticmethod(lambda run: run != "d")

        def row(self, run):
            curve = [{"generated_tokens": 400.0, "trained_tokens": 100.0}]
            seconds = {"rollout": 20.0 if run == "a" else 40.0, "update": 15.0, "sync": 1.0}
            timed = {} if run == "c" else {"estimate": 3.0}  # the oldest runs did not time estimates
            return {"seconds": seconds | timed, "curve": curve}

    monkeypatch.setattr(tables, "Results", lambda file: Rows())
    monkeypatch.setattr(tables, "part_runs", lambda part: {"grpo_n4": ["a", "b"], "ada": ["b", "c"], "pods": ["d"]})
    lines = tables.prices().splitlines()
    assert lines[2:] == [
        "| `grpo_n4` | 30 s | 15 s | 1 s | 3 s | 25% | 2.00 |",
        "| `ada` | 40 s | 15 s | 1 s | - | 25% | 1.50 |",
    ]


def test_each_seed_shows_where_it_ends(tmp_path, monkeypatch):
    (tmp_path / "fresh.jsonl").touch()
    monkeypatch.setattr(tables, "FRESH", tmp_path / "fresh.jsonl")
    monkeypatch.setattr(
        tables, "fresh_curves", lambda: {"grpo_n4": {3: line(0.01), 4: line(0.02)}, "ada": {4: line(0.03)}}
    )
    assert tables.fresh_seeds().splitlines() == [
        "| method | seed 3 | seed 4 |",
        "| --- | --- | --- |",
        "| `ada` | - | 0.270 |",
        "| `grpo_n4` | 0.090 | 0.180 |",
    ]


def test_tuning_tables_show_one_seed_with_the_best_of_each_method_in_bold(tmp_path):
    rows = [("grpo_n4-lr3e-05-p8", 100, 0.02), ("grpo_n4-lr0.0001-p8", 100, 0.03), ("grpo_n4-lr0.0001-p8", 101, 0.09)]
    rows += [("chain_sum-ada-lr0.0001-p8", 100, 0.01)]
    file = tmp_path / "tuning.jsonl"
    content = [json.dumps({"name": f"{name}-{seed}", "seed": seed, "curve": line(slope)}) for name, seed, slope in rows]
    file.write_text("\n".join(content))
    assert tables.tuning(file, 100).splitlines() == [
        "| method | 3e-05, 8 | 0.0001, 8 |",
        "| --- | --- | --- |",
        "| `grpo_n4` | 0.180 | **0.270** |",
        "| `ada` | - | **0.090** |",
    ]
    assert "**0.810**" in tables.tuning(file, 101)


@pytest.mark.parametrize(
    "name",
    [
        *("field_first", "field_second_savings", "field_prices", "field_fresh", "field_levers", "field_hard"),
        "smollm2_products",
    ],
)
def test_without_results_the_file_is_named(name, tmp_path, monkeypatch):
    for place in ("RUNS", "FRESH", "LEVERS", "SMOLLM2"):
        monkeypatch.setattr(tables, place, tmp_path / "missing.jsonl")
    monkeypatch.setattr(tables, "HARD", tmp_path)
    with pytest.raises(FileNotFoundError):
        tables.TABLES[name]()
