"""What a new user does, in small: a file of problems, prepare.py, two runs of train.py, evaluate.py, report.py."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from markupsafe import escape

pytestmark = [pytest.mark.vllm, pytest.mark.long]

PROBLEMS = [{"problem": f"What is {number} + {7 * number}?", "answer": str(8 * number)} for number in range(24)]
NUM_HELDOUT = 6
OWN = [  # the user's model, data and reward; the reward is one that random weights can satisfy
    "model=tiny",
    "data=dataset",
    "data.source.path=problems.jsonl",
    f"data.source.num_heldout={NUM_HELDOUT}",
    "reward=function",
    "reward.reward.path=tests.integration.graders.has_few_letters",
    "rollout.engine.dtype=float32",
    "rollout.engine.kv_cache_gib=0.05",
    "rollout.engine.max_num_seqs=32",
    "rollout.sampling.max_new_tokens=8",
]
BAND = ["num_samples=8", "band.min_positive=2", "band.max_positive=6"]
TRAINING = [
    "num_steps=2",
    "optimizer.lr=1e-2",
    "trainer.precision=32-true",
    "data.prompts_per_step=4",
    f"callbacks.evaluation.num_prompts={NUM_HELDOUT}",
    "callbacks.preview.num_prompts=2",
    "callbacks.preview.num_samples=2",
]
EVALUATION = ["eval.num_samples=4"]
METHODS = {"adaptive": "ada_seq_balance", "fixed": "grpo"}
"""Experiment by name of the run."""
STORE = "mlflow.db"


def said_by(done, program):
    """What a program printed, which must have ended well."""
    assert done.returncode == 0, f"{program}: {done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def walk(tmp_path_factory, programs, empty_store):
    """The whole walk; paths and names are those the programs choose where the user gives none."""
    folder = tmp_path_factory.mktemp("walk")

    def prints(program, *arguments):
        done = programs.run(program, *arguments, cwd=folder, environment={"MLFLOW_TRACKING_URI": None})
        return said_by(done, program)

    shutil.copy(empty_store, folder / STORE)
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PROBLEMS))
    said = {"prepare": prints("prepare.py", *OWN, *BAND, "run_name=sums")}
    python, program, experiment, *shown = shlex.split(said["prepare"].splitlines()[-1].removeprefix("train on them: "))
    assert (python, program, experiment) == ("python", "train.py", "+experiment=grpo_chosen")
    for name, method in METHODS.items():
        said[name] = prints(program, f"+experiment={method}", *shown, *TRAINING, f"run_name={name}")
    said["before"] = prints("evaluate.py", *OWN, *EVALUATION)
    own_function = "reward.reward.path=tests.integration.graders.has_few_letters"  # a run folder may not name one
    said["after"] = prints(
        "evaluate.py", "checkpoint=runs/adaptive", "compare=evaluations/tiny-heldout", own_function, *EVALUATION
    )
    said["report"] = prints("report.py", *(f"runs/{name}" for name in METHODS), "--output", "report.html")
    (after,) = (folder / "evaluations").glob("adaptive-*-heldout")
    evaluations = {"before": folder / "evaluations" / "tiny-heldout", "after": after}
    prepared = folder / "prepared" / "sums"
    return SimpleNamespace(folder=folder, prepared=prepared, said=said, evaluations=evaluations)


def rows(path):
    return pq.read_table(path).to_pylist()


def texts(run):
    return [row["text"] for row in rows(run / "responses" / "train")]


def prompt_log(run):
    """Not by ``read_prompts``, which takes seconds to import Lightning."""
    import pandas as pd

    return pd.read_csv(run / "prompts.csv", dtype={"prompt_id": str})


def test_preparation_measures_every_problem_and_selects_by_its_band(walk):
    measured = rows(walk.prepared / "prompts.parquet")
    assert len(measured) == len(PROBLEMS) - NUM_HELDOUT
    assert {row["answer"] for row in measured} < {row["answer"] for row in PROBLEMS}
    assert {row["num_counted"] for row in measured} == {8}
    graded = {}
    for row in rows(walk.prepared / "responses"):
        graded.setdefault(row["prompt_id"], []).append(row["reward"])
    assert {row["prompt_id"]: row["pass_rate"] for row in measured} == {
        prompt_id: sum(rewards) / 8 for prompt_id, rewards in graded.items()
    }
    selected = {row["prompt_id"] for row in rows(walk.prepared / "selected.parquet")}
    assert selected == {row["prompt_id"] for row in measured if 2 <= row["num_positive"] <= 6}
    assert 0 < len(selected) < len(measured)
    assert f"selected: {len(selected)} prompts" in walk.said["prepare"]


@pytest.mark.parametrize("name", METHODS)
def test_training_takes_up_the_selection_and_its_pass_rates(walk, name):
    from ada_lightning.core.records import Belief

    selected = {row["prompt_id"] for row in rows(walk.prepared / "selected.parquet")}
    history = json.loads((walk.prepared / "history.json").read_text())
    log = prompt_log(walk.folder / "runs" / name)
    assert set(log["prompt_id"]) <= selected
    assert log["step"].tolist() == [0] * 4 + [1] * 4
    first = log[log["step"] == 0]
    prior = Belief()
    believed = [
        (prior.alpha + history[prompt_id][0]) / (prior.alpha + prior.beta + history[prompt_id][1])
        for prompt_id in first["prompt_id"]
    ]
    assert first["expected_pass_rate"].tolist() == pytest.approx(believed, rel=1e-3)  # four digits in the file
    assert f"history: {len(selected)} of {len(selected)} training prompts known" in walk.said[name]
    summary = json.loads((walk.folder / "runs" / name / "summary.json").read_text())
    assert (summary["status"], summary["policy_version"]) == ("finished", 2)
    assert log["num_positive"].sum() > 0


def test_the_two_methods_draw_differently(walk):
    drawn = {name: prompt_log(walk.folder / "runs" / name)["num_drawn"] for name in METHODS}
    assert set(drawn["fixed"]) == {4}
    assert len(set(drawn["adaptive"])) > 1
    assert drawn["adaptive"].min() >= 4


def test_evaluations_before_and_after_are_of_the_same_problems_and_compared(walk):
    results, answers = {}, {}
    for name, folder in walk.evaluations.items():
        results[name] = json.loads((folder / "results.json").read_text())
        answers[name] = rows(folder / "sets" / "heldout" / "responses")
        assert (folder / "engine.log").stat().st_size > 0
        assert results[name]["sampling"]["max_new_tokens"] == 8
        heldout = results[name]["sets"]["heldout"]
        assert (heldout["num_prompts"], heldout["num_responses"]) == (NUM_HELDOUT, 4 * NUM_HELDOUT)
        average = heldout["figures"]["avg_at_4"]
        assert average["mean"] == pytest.approx(sum(row["reward"] for row in answers[name]) / (4 * NUM_HELDOUT))
        assert 0 <= average["low"] <= average["mean"] <= average["high"] <= 1
        assert average["low"] < average["high"]
        assert f"{average['mean']:.3f} [{average['low']:.3f}, {average['high']:.3f}]" in walk.said[name]
    asked = {name: {row["prompt_id"] for row in answers[name]} for name in answers}
    assert asked["before"] == asked["after"]
    assert asked["after"].isdisjoint(row["prompt_id"] for row in rows(walk.prepared / "prompts.parquet"))
    by_seed = [{(row["prompt_id"], row["sample_index"]): row["text"] for row in answers[name]} for name in answers]
    assert by_seed[0] != by_seed[1]  # the same random numbers, so the policy is another
    comparison = json.loads((walk.evaluations["after"] / "comparison-with-tiny-heldout.json").read_text())
    difference = comparison["average"]["figures"]["avg"]["difference"]
    means = {name: results[name]["average"]["figures"]["avg_at_4"]["mean"] for name in results}
    assert difference["mean"] == pytest.approx(means["after"] - means["before"])
    assert difference["low"] <= difference["mean"] <= difference["high"]


def test_the_report_holds_both_methods_what_differs_and_what_they_answered(walk):
    page = (walk.folder / "report.html").read_bytes().decode()  # as it is: a response may hold any kind of line end
    plain = page.replace("<wbr>", "")
    settings = re.search(r"<h2>What was set differently</h2>.*?</table>", plain, re.DOTALL)[0]
    for name, method in METHODS.items():
        assert method in settings
        assert f"<td>{name}</td>" in plain
        shown = [text for text in texts(walk.folder / "runs" / name) if text.strip()]
        assert any(f'<p class="text">{escape(text)}</p>' in page for text in shown), name
    assert "<code>sampler._target_</code>" in settings
    assert {"BalanceSampler", "UniformSampler"} <= set(re.findall(r"\w+", settings))
    assert "<code>data.only</code>" not in settings
    assert any(f'<p class="prompt">user: {row["problem"]}</p>' in page for row in PROBLEMS)
    numbers = json.loads((walk.folder / "report.json").read_text())
    assert [method["name"] for method in numbers["methods"]] == list(METHODS.values())
    for method, name in zip(numbers["methods"], METHODS, strict=True):
        summary = json.loads((walk.folder / "runs" / name / "summary.json").read_text())
        assert method["runs"][0]["heldout_after"] == pytest.approx(summary["heldout"]["eval/avg_at_4"]["after"])


@pytest.mark.parametrize("name", METHODS)
def test_the_sampled_responses_are_in_the_mlflow_store(walk, name):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{walk.folder / STORE}")
    experiment = client.get_experiment_by_name("ada_lightning")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == set(METHODS)  # side by side
    run = runs[name]
    assert run.info.status == "FINISHED"
    assert run.data.params["data.only"] == "prepared/sums"
    listed = {entry.path for entry in client.list_artifacts(run.info.run_id, "responses/train")}
    assert listed == {"responses/train/step_000000.parquet", "responses/train/step_000000.json"}
    artifact = client.download_artifacts(run.info.run_id, "responses/train/step_000000.parquet")
    assert texts(walk.folder / "runs" / name) == [row["text"] for row in rows(artifact)]
    assert len(client.list_artifacts(run.info.run_id, "responses/eval")) == 2
    table = json.loads(Path(client.download_artifacts(run.info.run_id, "responses/train/step_000000.json")).read_text())
    at = table["columns"].index("text")
    assert {line[at] for line in table["data"]} == set(texts(walk.folder / "runs" / name))
    assert "samples.html" in {entry.path for entry in client.list_artifacts(run.info.run_id)}
    history = client.get_metric_history(run.info.run_id, "eval/avg_at_4")
    assert [metric.step for metric in history] == [0, 2]


def test_the_evaluations_are_in_the_mlflow_store(walk):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{walk.folder / STORE}")
    experiment = client.get_experiment_by_name("evaluation")
    stored = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert stored.keys() == {folder.name for folder in walk.evaluations.values()}
    for folder in walk.evaluations.values():
        figures = json.loads((folder / "results.json").read_text())["average"]["figures"]
        assert stored[folder.name].data.metrics["average/avg_at_4"] == pytest.approx(figures["avg_at_4"]["mean"])
