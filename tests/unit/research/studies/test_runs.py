"""What was run is found again; settings are taken by a rule; comparisons are of the same seeds."""

import json

import pytest

from research.studies import contest
from research.studies.contest import Contest, comparison
from research.studies.methods import Settings
from research.studies.runs import Results, StudyRun, cost_curve, train_missing
from research.studies.tuning import NotTunedError, Tuning, taken


class Measured(StudyRun):
    """Ends at a tenth of its seed."""

    def measured(self):
        costs = ("generated_tokens", "trained_tokens", "seconds")
        curve = [{**dict.fromkeys(costs, 10.0 * point), "held_out": self.seed / 10} for point in range(4)]
        seconds = {"rollout": 2.0, "update": 1.0, "sync": 0.5, "estimate": 0.25}
        return {"overrides": list(self.overrides), "seed": self.seed, "curve": curve, "seconds": seconds}

    def train(self, environment):
        assert int(environment["OMP_NUM_THREADS"]) >= 1


def test_what_a_run_spent_is_counted_up_to_each_evaluation_and_tokens_that_were_wasted_too():
    step = {"rollout/generated_tokens": 90.0, "rollout/tokens_wasted": 10.0, "train/trained_tokens": 40.0}
    step |= {"time/rollout_s": 2.0, "time/update_s": 1.0, "rollout/num_sampled": 8.0}
    rows = [{"step": 0.0, "eval/avg_at_4": 0.1, **step}, {"step": 1.0, **step}, {"step": 2.0, "eval/avg_at_4": 0.3}]
    first, last = cost_curve(rows)
    spent = {"updates": 2.0, "responses": 16.0, "generated_tokens": 200.0, "trained_tokens": 80.0, "seconds": 6.0}
    assert last == spent | {"held_out": 0.3}
    assert first == dict.fromkeys(spent, 0.0) | {"held_out": 0.1}


def test_results_are_found_again_and_other_settings_are_refused(tmp_path):
    file = tmp_path / "some" / "results.jsonl"
    runs = [Measured("study", "grpo", seed, ("a=1",), label="grpo_n4") for seed in range(3)]
    train_missing(runs[:2], Results(file), num_jobs=2)
    found = Results(file)
    assert [found.has(run) for run in runs] == [True, True, False]
    assert found.row(runs[1])["seed"] == 1
    train_missing(runs, found, num_jobs=1)
    assert file.read_text().count("\n") == 3
    with pytest.raises(ValueError, match=r"results.jsonl has grpo_n4-0 with other settings \(a=1\); remove that line"):
        found.has(Measured("study", "grpo", 0, ("a=2",), label="grpo_n4"))


def test_large_checkpoints_go_once_the_result_is_kept_and_not_before(tmp_path, monkeypatch):
    monkeypatch.setattr("research.studies.runs.ROOT", tmp_path)
    run = Measured("study", "grpo", 0)
    checkpoint = run.folder / "checkpoints" / "last"
    checkpoint.mkdir(parents=True)
    summary = run.folder / "summary.json"
    summary.write_text('{"status": "stopped"}')
    results = Results(tmp_path / "results.jsonl", discard_checkpoints=True)
    with pytest.raises(ValueError, match="grpo-0 has not finished; its checkpoints are needed to continue it"):
        results.add(run)
    assert checkpoint.exists()
    assert not results.has(run)
    summary.write_text('{"status": "finished"}')
    Results(tmp_path / "small.jsonl").add(run)
    assert checkpoint.exists()
    results.add(run)
    assert sorted(file.name for file in run.folder.iterdir()) == ["summary.json"]


@pytest.mark.parametrize(("has_checkpoint", "last"), [(True, "ckpt=last"), (False, "a=1")])
def test_a_run_that_was_killed_goes_on_or_begins_anew_beside_what_is_left(tmp_path, monkeypatch, has_checkpoint, last):
    monkeypatch.setattr("research.studies.runs.ROOT", tmp_path)
    called = []
    monkeypatch.setattr("research.studies.runs.subprocess.run", lambda command, **options: called.append(command))
    run = StudyRun("study", "grpo", 3, ("a=1",))
    (run.folder / ("checkpoints/last" if has_checkpoint else "logs")).mkdir(parents=True)
    run.train()
    assert called[0][2:5] == ["+experiment=grpo", "seed=3", "run_name=study/grpo-3"]
    assert called[0][-1] == last
    assert run.folder.with_name("grpo-3.broken").exists() is not has_checkpoint
    run.folder.mkdir(exist_ok=True)
    (run.folder / "summary.json").write_text('{"status": "finished"}')
    run.train()
    assert len(called) == 1


def test_the_settings_that_end_highest_are_taken_and_gaps_are_named(tmp_path):
    levels = {Settings(3e-5, 8): 1, Settings(1e-4, 8): 9, Settings(3e-4, 8): 4}
    tuning = Tuning(
        tmp_path / "tuning.jsonl",
        "python -m some.tune",
        {"ada": list(levels)},
        lambda method, settings: Measured("study", method, levels[settings]),
    )
    with pytest.raises(NotTunedError, match=r"ada is not tuned yet: ada-1, ada-9, ada-4; run python -m some.tune"):
        tuning.tuned("ada_similar")  # which takes the settings of ada
    tuning.main("", [])
    assert tuning.tuned("ada_similar") == Settings(1e-4, 8)
    assert "| `ada` | 0.100 | **0.900** | 0.400 |" in tuning.table()
    assert "| `ada` | 0.0001 | 8 | 0.900 | 0.900 | 0.100 | 3 |" in tuning.summary()


def test_of_settings_as_good_as_the_best_the_quickest_is_taken():
    def ends(level, seconds):
        return [{"seconds": seconds, "held_out": level}] * 3

    curves = {8: ends(0.40, 90.0), 16: ends(0.39, 50.0), 32: ends(0.38, 20.0)}
    assert taken(curves, noise=0.015) == 16
    assert taken(curves, noise=0.0) == 8


def contest_of(file, seeds_by_method, **options):
    def runs(num_seeds):
        return {name: [Measured("s", name, seed) for seed in range(1, num_seeds + 1)] for name in seeds_by_method}

    made = Contest("some", file, runs, 2, **options)
    for name, seeds in seeds_by_method.items():
        for seed in seeds:
            made.results().add(Measured("s", name, seed))
    return made


def test_a_mean_over_fewer_seeds_does_not_stand_beside_the_others(tmp_path):
    seeds = {"grpo_n4": (1, 2), "grpo_n4_4_updates": (1, 2), "ada": (1,)}
    made = contest_of(tmp_path / "runs.jsonl", seeds, unseen_seeds=(2,))
    assert list(made.curves()) == ["grpo_n4", "grpo_n4_4_updates"]
    head, _, *rows = made.table().splitlines()
    assert head.endswith("| tokens, seeds 2 alone | seeds |")
    assert [row.split(" | ")[1] for row in rows] == ["0.150 (0.100 to 0.200)"] * 2
    assert "| `ada` | 2 s | 1 s | 0 s | 0 s | 100% | 0.50 |" in made.prices()


def test_a_missing_comparator_is_named():
    curve = [dict.fromkeys(("generated_tokens", "trained_tokens", "seconds", "held_out"), 1.0)] * 3
    with pytest.raises(ValueError, match="no run of grpo_n4_4_updates is done, with which the others are compared"):
        comparison({"grpo_n4": {0: curve}})
    with pytest.raises(ValueError, match="no run of trl or grpo is done, over which the others' gain is counted"):
        comparison({"ada": {0: curve}}, {"generated_tokens": "ada"}, grpo=("trl", "grpo"))


def test_a_study_trains_what_is_missing_a_seed_of_everything_before_the_next(tmp_path, monkeypatch, capsys):
    seeds = {"grpo_n4": (1,), "grpo_n4_4_updates": (), "ada": ()}
    made = contest_of(tmp_path / "runs.jsonl", seeds)
    contest.main("", [made], ["--jobs", "1"])
    names = [json.loads(line)["name"] for line in made.file.read_text().splitlines()]
    assert names[1:] == ["grpo_n4_4_updates-1", "ada-1", "grpo_n4-2", "grpo_n4_4_updates-2", "ada-2"]
    assert "| `ada` |" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"--methods aad: some compares grpo_n4, grpo_n4_4_updates, ada"):
        contest.main("", [made], ["--methods", "aad"])
    closed = contest_of(tmp_path / "closed.jsonl", {"grpo_n4": (), "ada": ()}, is_closed=True)
    with pytest.raises(SystemExit, match="no run of grpo_n4 is done"):
        contest.main("", [closed], [])
