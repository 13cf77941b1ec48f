"""The study of ``experiment=auto``: its runs would start, share what they may, and say nothing before the last pair."""

from __future__ import annotations

import json
import math

import pytest

from research.studies import measured
from research.studies.curves import Estimate
from research.studies.field import auto, dropping, fresh, setting, sums
from research.studies.methods import Settings
from research.studies.pairs import AUTO, GRPO, Arm, PairStudy, Task, relative, share_chosen
from research.studies.real_model import auto as real_model
from research.studies.real_model.compare import verdict
from research.studies.runs import StudyRun

RUNS = {(task, arm): part.run(auto.SEEDS[0]) for task, of in auto.STUDY.tasks.items() for arm, part in of.arms.items()}
SEED = auto.SEEDS[0]


def curve(speed, tokens=100.0):
    points = [0.0, 0.25, 0.5, 0.75, 1.0]
    return [
        {"updates": 8 * at, "held_out": 0.2 + 0.2 * (1 - math.exp(-2 * speed * at))}
        | dict.fromkeys(("generated_tokens", "trained_tokens", "seconds"), tokens * at)
        for at in points
    ]


def study(folder, *, best="steady", seeds=range(5), few=0):
    """A study of one task whose runs are names; ``few``: pairs of the arm that is dropped."""

    def arm(name, **more):
        return Arm(lambda seed: StudyRun("s", "grpo", seed, label=name), **more)

    arms = {AUTO: arm("a"), GRPO: arm("g"), "dropped": arm("d", pairs=few)}
    arms |= {"counted": arm("d", pairs=few, spent=lambda seed, row: row["spent"])}
    if best != GRPO:
        arms[best] = arm("b")
    return PairStudy(folder / "rows.jsonl", seeds, {"only": Task("only", arms, best)}, auto.judge)


def add(study, speeds):
    """Write rows with the learning speed of each label; ``speeds`` of labels and seeds."""
    with study.file.open("a") as file:
        for (label, seed), speed in speeds.items():
            row = {"name": f"{label}-{seed}", "seed": seed, "overrides": [], "curve": curve(speed), "spent": 50.0}
            file.write(json.dumps(row | {"modes": [[0, 1.0], [4, 2.0]]}) + "\n")


def test_a_task_has_the_arms_of_the_protocol_and_tuned_settings():
    assert [len(task.arms) for task in auto.STUDY.tasks.values()] == [6, 5, 6, 5, 6]
    grpo, own = auto.TUNING.tuned(auto.GRPO_METHOD), auto.TUNING.tuned(auto.DAPO_METHOD)
    for (task, arm), run in RUNS.items():
        lr, prompts = own if arm == auto.DAPO_METHOD else grpo  # tuned GRPO and ada happen to have the same
        assert f"optimizer.lr={lr:g}" in run.overrides, (task, arm)
        assert f"data.prompts_per_step={prompts * (1 if arm == auto.DAPO_METHOD else 4)}" in run.overrides
        assert "callbacks.budget.max_generated_tokens=120000" in run.overrides
        assert ("curriculum.cost_ratio=1" in run.overrides) == (arm == AUTO)


def test_who_reads_no_words_has_one_run_where_words_are_exchanged_and_where_not():
    for arm in (GRPO, auto.DAPO_METHOD, auto.FREE, auto.COUNTED):
        assert RUNS["exchanged", arm] == RUNS["once", arm]
    words = set(RUNS["exchanged", AUTO].overrides) - set(RUNS["once", AUTO].overrides)
    assert [each.partition("=")[0] for each in words] == ["estimator.embedding._target_"]
    assert RUNS["exchanged", AUTO].name != RUNS["once", AUTO].name
    assert len({run.name for run in RUNS.values()}) == 20


def test_both_accounts_of_dropping_are_one_run_and_no_other_run_has_its_prompts():
    for task in auto.STUDY.tasks:
        assert RUNS[task, auto.FREE] == RUNS[task, auto.COUNTED]
    only = {run.name: [each for each in run.overrides if each.startswith("data.only=")] for run in RUNS.values()}
    assert sum(map(bool, only.values())) == 4
    assert RUNS["back", auto.FREE].overrides[-2:] == (f"data.only=runs/field/measured/auto-back-{SEED}", auto.FLOAT32)


FILES = {"once": "fresh.jsonl", "exchanged": "fresh.jsonl", "back": "train.jsonl"}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("key", [key for key in RUNS if key[0] != "exchanged" or key[1] == AUTO], ids="-".join)
def test_a_run_would_start(problem_files, tmp_path, composed, monkeypatch, key):
    for name, value in {"PROBLEMS": tmp_path / "fresh.jsonl", "FOLDER": tmp_path, "ROOT": tmp_path}.items():
        monkeypatch.setattr(auto, name, value)
    monkeypatch.setattr(fresh, "NUM_PROBLEMS", 600)
    monkeypatch.setattr(type(auto.TUNING), "tuned", lambda self, method: Settings(1e-4, 8))
    auto.prepare_all()
    task, arm = key
    is_dropped = arm in (auto.FREE, auto.COUNTED)
    cfg = composed(auto.tasks()[task].arms[arm].run(SEED), check=not is_dropped)  # which reads what was measured
    assert cfg.sampler.group_size == (8 if arm == auto.DAPO_METHOD else 4)
    file = "once_measured.jsonl" if is_dropped and task == "once" else FILES.get(task, f"{task}.jsonl")
    assert cfg.data.source.path == file
    assert cfg.data.source.heldout_path == ("heldout.jsonl" if task in FILES else f"{task}_heldout.jsonl")


def test_problems_of_the_new_tasks_train_or_are_held_out_never_both(problem_files, tmp_path, monkeypatch):
    monkeypatch.setattr(auto, "FOLDER", tmp_path)
    for prompts in auto.OF_MIXTURES:
        prompts.prepare()
        train, held_out = (
            {json.loads(line)["prompt"] for line in file.read_text().splitlines()}
            for file in (prompts.problems, prompts.heldout)
        )
        assert (len(train), len(held_out)) == (setting.NUM_TRAIN, setting.NUM_HELDOUT)
        assert not train & held_out


def test_a_mixture_has_its_kinds():
    terms = [len(expression.replace("-", "+").split("+")) for expression, _ in sums.problems(size=200, seed=0)]
    assert set(terms) == set(range(2, 9))
    alike = [expression for expression, _ in sums.problems(size=200, seed=0, mixture=sums.ALIKE)]
    assert {sum(each in "+-" for each in expression) for expression in alike} == {5, 6}


def test_a_run_pays_for_the_prompts_it_trains_on_where_none_comes_back(monkeypatch):
    notes = {
        "auto-once": {"generated_tokens": 4000, "num_selected": 100},
        f"auto-back-{SEED}": {"generated_tokens": 70},
    }
    monkeypatch.setattr(auto, "measured", lambda file: notes)
    row = {"responses": 80.0}  # 20 groups, a fifth of what was kept
    assert auto.spent_for(auto.ONCE, SEED, row) == 800.0
    assert auto.spent_for(auto.BACK, SEED, row) == 70.0


def test_a_measurement_leaves_out_what_only_training_has_and_is_noted_once(tmp_path, monkeypatch):
    commands = []
    summary = {"num_prompts": 4, "num_samples": 8, "generated_tokens": 9, "num_selected": 2}
    folder = tmp_path / "runs" / "name"

    def draw(command, **_):
        commands.append(command)
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(json.dumps(summary | {"prompts_by_positives": {"0": 2}, "else": 1}))

    monkeypatch.setattr(measured, "ROOT", tmp_path)
    monkeypatch.setattr(measured.subprocess, "run", draw)
    for _ in range(2):
        settings = (
            "model=tiny",
            "trainer.precision=32-true",
            "data.max_tokens_per_microbatch=9",
            "optimizer/schedule=l",
        )
        measured.measure(folder, settings, seed=3, file=tmp_path / "notes.json")
    assert len(commands) == 1
    assert commands[0][2:] == [
        *("model=tiny", "num_samples=8", "band.min_positive=1", "band.max_positive=7", "seed=3", "run_dir=runs/name")
    ]
    assert measured.measured(tmp_path / "notes.json") == {"name": summary | {"prompts_by_positives": {"0": 2}}}


def test_pairs_are_trained_one_after_the_other_and_a_shared_run_once(tmp_path, monkeypatch):
    found, trained = study(tmp_path, seeds=range(3), few=1), []

    def train(runs, results, **options):
        assert options == {"num_jobs": 2, "num_threads": 1}
        trained.append([run.name for run in runs])

    monkeypatch.setattr("research.studies.pairs.train_missing", train)
    add(found, {("a", 0): 1.0})
    found.train(["only"], num_pairs=2, num_workers=2)
    assert trained == [["g-0", "d-0", "b-0"], ["a-1", "g-1", "b-1"]]


def test_nothing_is_told_before_the_last_pair(tmp_path):
    found = study(tmp_path)
    known = {(label, seed): 1.0 for label in "agdb" for seed in range(5)}
    last = known.popitem()
    add(found, known)
    assert found.num_pairs(found.tasks["only"]) == 4
    assert "4 of 5" in found.progress_table()
    assert found.table() == found.chosen_table() == "No figures yet: no task has all its pairs.\n"
    add(found, dict([last]))
    assert "5 of 5" in found.progress_table()
    assert "| only | GRPO | 5 | 1 | 1 | 1 |" in found.table()
    assert "| only | 5 of 5 | 50% |" in found.chosen_table()


@pytest.mark.parametrize(
    ("best", "speeds", "told"),
    [
        ("steady", {"a": 2.0, "b": 2.0}, "reached: 1.00 [1.00, 1.00] of the best (asked: 0.9)"),
        ("steady", {"a": 1.2, "b": 2.0}, "missed: 0.6"),
        (GRPO, {"a": 1.0}, "reached: at least 1.00 of GRPO (asked: 0.93)"),
        (GRPO, {"a": 0.8}, "missed: at least 0.8"),
    ],
)
def test_a_target_is_reached_or_missed(tmp_path, best, speeds, told):
    found = study(tmp_path, best=best)
    speeds = {"g": 1.0, "d": 1.5} | speeds
    add(found, {(label, seed): speed for label, speed in speeds.items() for seed in range(5)})
    assert f"| {told}" in found.table()


def test_what_is_counted_shifts_the_curve_of_that_account_alone(tmp_path):
    found = study(tmp_path)
    add(found, {(label, seed): 1.0 for label in "agdb" for seed in range(5)})
    curves = found.curves(found.tasks["only"])
    assert [row["generated_tokens"] for row in curves["counted"][0]][:3] == [0.0, 50.0, 75.0]
    assert curves["dropped"][0] == curve(1.0)


def test_a_factor_of_two_arms_is_that_of_both_against_grpo():
    runs = {speed: dict.fromkeys(range(5), curve(speed)) for speed in (1.0, 1.5, 2.0)}
    share = relative(runs[1.0], runs[1.5], runs[2.0])
    assert share.value == pytest.approx(0.75, rel=0.1)
    assert share.low == pytest.approx(share.value)


def test_a_run_that_ends_while_it_chooses_has_chosen_to_its_end():
    assert share_chosen({"modes": [[0, 1.0], [2, 2.0], [4, 0.0], [6, 2.0]], "curve": [{"updates": 8}]}) == 0.5


@pytest.mark.parametrize("arguments", [["--pairs", "0"], ["--pairs", "11"], ["--workers", "0"], ["--tasks", "none"]])
def test_a_wrong_number_is_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        auto.STUDY.main("", arguments)
    assert arguments[0] in capsys.readouterr().err


def test_rows_that_are_committed_are_those_of_the_protocol():
    arms = [arm for task in auto.STUDY.tasks.values() for arm in task.arms.values()]
    names = {arm.run(seed).name for seed in auto.SEEDS for arm in arms}
    rows = auto.STUDY.file.read_text().splitlines() if auto.STUDY.file.exists() else []
    assert {json.loads(row)["name"] for row in rows} <= names
    assert not set(auto.SEEDS) & {*setting.second_seeds(), *setting.FIRST_SEEDS, dropping.TUNING_SEED}


@pytest.mark.parametrize("on_gpu", [False, True])
def test_the_real_model_has_the_arms_and_pairs_of_the_protocol(composed, on_gpu, monkeypatch):
    monkeypatch.setattr("ada_lightning.training.models.pretrained.Pretrained.check", lambda self: None)
    study = real_model.STUDIES[on_gpu]
    for name, task in study.tasks.items():
        assert {arm: len(study.seeds_of(part)) for arm, part in task.arms.items()} == {
            **{AUTO: 10, GRPO: 10, real_model.FREE: 5, real_model.COUNTED: 5},
            **({real_model.RARER_CLASS: 5} if name == "once" else {}),
        }
        for arm, part in task.arms.items():
            run = part.run(study.seeds[0])
            cfg = composed(run, check=arm not in (real_model.FREE, real_model.COUNTED) and not on_gpu)
            assert cfg.callbacks.evaluation.num_samples == 4
            assert cfg.callbacks.budget.max_generated_tokens == 280_000
            assert cfg.data.source.num_train == (5_632 if name == "once" else 336)
            assert cfg.data.prompts_per_step == (128 if arm == real_model.RARER_CLASS else 32)
            if arm == AUTO:
                assert cfg.curriculum.cost_ratio == (1 if on_gpu else 3)


def test_a_real_run_without_its_start_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(real_model, "START", tmp_path / "none")
    monkeypatch.setattr(real_model, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"none is missing; run python -m research.studies.real_model.warm_up first"):
        real_model.check_start()


def test_the_real_model_pays_by_the_bounds_of_its_protocol():
    assert verdict(Estimate(1.5, 1.2, 1.9)) == "pays"
