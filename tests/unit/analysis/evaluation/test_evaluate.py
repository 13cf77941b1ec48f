"""evaluate.py from the command line's arguments to the files it leaves, on an engine without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir

from ada_lightning.analysis.evaluation.checkpoint import expand_arguments
from ada_lightning.analysis.evaluation.report import flat_figures
from ada_lightning.config.check import override_errors
from ada_lightning.programs import evaluate as program
from ada_lightning.programs.start import CONFIG_DIR
from ada_lightning.run.stopping import SamplingStoppedError
from tests.unit.analysis.evaluation.answering_engine import AnsweringEngine

ENGINE = "rollout.engine._target_=tests.unit.analysis.evaluation.answering_engine.AnsweringEngine"
PAPER_SETS = ("math500", "minerva", "olympiadbench", "aime_like")


def write_set(file, *, num_prompts, name, answers=("\\frac{8}{2}", "4")):
    """The paper's columns: a problem, its answer, and what else the sets have."""
    rows = [
        {"problem": f"{name}: what is {i} - {i} + 4?", "answer": answers[i % 2], "level": i} for i in range(num_prompts)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


@pytest.fixture
def evaluate(tmp_path):
    """Compose as the program does, and run. Arguments are those of the command line."""
    AnsweringEngine.num_opened = AnsweringEngine.num_submitted = AnsweringEngine.stop_after = 0
    AnsweringEngine.skill = 0.0

    def small_evaluate(*arguments, name="it", scripted=True):
        options = tmp_path / "options"
        base = ["model=tiny", "label=tiny"] if not any(a.startswith("checkpoint=") for a in arguments) else []
        base += [
            f"run_dir={tmp_path}/evaluations/{name}",
            "run_name=it",
            "mlflow=null",
            *([ENGINE, "~rollout.engine.dtype"] if scripted else [ENGINE]),
        ]
        expanded = expand_arguments([*base, *arguments], options, CONFIG_DIR)
        assert override_errors(expanded, CONFIG_DIR, "evaluate") == []
        if "--config-dir" in expanded:
            place = expanded.index("--config-dir")
            expanded = [*expanded[:place], *expanded[place + 2 :], f"hydra.searchpath=[file://{options}]"]
        with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
            cfg = compose("evaluate", expanded)
        return program.evaluate(cfg, [argument for argument in expanded if not argument.startswith("hydra.")])

    return small_evaluate


def files_of(tmp_path, sizes=(6, 5, 4, 3), **options):
    return [
        f"eval.sets.{name}.path={write_set(tmp_path / f'{name}.jsonl', num_prompts=size, name=name, **options)}"
        for name, size in zip(PAPER_SETS, sizes, strict=True)
    ]


PAPER = ["eval=paper", "eval.num_samples=4", "eval.reward.num_workers=1", "eval.minerva_reward.num_workers=1"]

REWARD = "{_target_: ada_lightning.rewards.exact_match.ExactMatchReward, "
REWARD += "extraction: {_target_: ada_lightning.rewards.extraction.LastBoxed}}"
PLAIN = [*PAPER, "~eval.reward.reward", f"+eval.reward.reward={REWARD}"]
PLAIN += ["eval.sets.minerva.reward=${eval.reward}", "~eval.minerva_reward"]
"""The paper's sets without its two graders, whose workers take seconds to import what knows mathematics."""


def plain_files(tmp_path):
    return files_of(tmp_path, answers=("4", "4"))


def responses(folder):
    import pyarrow.parquet as pq

    rows = []
    for name in sorted(path.name for path in (folder / "sets").iterdir()):
        for part in sorted((folder / "sets" / name / "responses").glob("*.parquet")):
            rows += [{"set": name, **row} for row in pq.read_table(part).to_pylist()]
    return sorted(rows, key=lambda row: (row["set"], row["position"], row["sample_index"]))


def test_the_papers_protocol_on_files(evaluate, tmp_path, capsys):
    """Four sets, its weights, its template; every figure follows from the stored responses."""
    results = evaluate(*PAPER, *files_of(tmp_path))
    folder = tmp_path / "evaluations" / "it"
    assert {file.name for file in folder.iterdir()} == {
        "sets", "results.json", "results.md", "pass_at_k.png", "config.yaml",
    }  # fmt: skip
    assert json.loads((folder / "results.json").read_text()) == results
    rows = responses(folder)
    assert len(rows) == 18 * 4
    assert AnsweringEngine.num_opened == 1  # one engine for all sets
    assert {row["answer"] for row in rows} == {"4", "5", None}
    assert rows[0]["prompt"].startswith(
        "system: Please reason step by step, and put your final answer within \\boxed{}."
    )
    assert "within \\boxed{}." in rows[0]["prompt"].splitlines()[1]
    means = {}
    for name in PAPER_SETS:
        rewards = [row["reward"] for row in rows if row["set"] == name]
        means[name] = sum(rewards) / len(rewards)
        figure = results["sets"][name]["figures"]["avg_at_4"]
        assert figure["mean"] == pytest.approx(means[name])
        if figure["num_prompts"] < 5:
            assert figure["low"] is figure["high"] is None
        else:
            assert figure["low"] < figure["mean"] < figure["high"]
    weights = dict(zip(PAPER_SETS, (500, 272, 675, 230), strict=True))
    assert results["average"]["weights"] == weights
    expected = sum(weights[name] * means[name] for name in PAPER_SETS) / 1677
    assert 0.1 < expected < 0.9
    assert results["average"]["figures"]["avg_at_4"]["mean"] == pytest.approx(expected)
    assert results["average"]["figures"].keys() >= {"pass_at_4", "maj_at_4", "all_correct_at_2", "all_wrong_at_2"}
    text = (folder / "results.md").read_text()
    assert text in capsys.readouterr().out
    assert f"| weighted average | 18 |  | {expected:.3f} [-] |" in text
    tracked = flat_figures(results)
    assert tracked["math500/avg_at_4_low"] == results["sets"]["math500"]["figures"]["avg_at_4"]["low"]
    assert tracked["average/avg_at_4"] == pytest.approx(expected)
    assert not {"aime_like/avg_at_4_low", "average/avg_at_4_high"} & tracked.keys()
    tokens = results["sets"]["math500"]["figures"]["response_tokens"]
    assert 0 <= tokens["low"] < tokens["mean"] < tokens["high"] <= results["sampling"]["max_new_tokens"]
    assert "| set | k=1 | k=2 | k=4 |" in text
    assert (folder / "pass_at_k.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_a_stopped_evaluation_continues_to_the_same_results(evaluate, tmp_path):
    files = plain_files(tmp_path)
    whole = evaluate(*PLAIN, *files, name="whole")
    AnsweringEngine.num_submitted = 0
    options = [*PLAIN, *files, "prompts_per_file=1"]
    AnsweringEngine.stop_after = 40
    with pytest.raises(SamplingStoppedError, match="the same command again continues there"):
        evaluate(*options, name="parts")
    folder = tmp_path / "evaluations" / "parts"
    assert not (folder / "results.json").exists()
    stored = len(responses(folder))
    assert 4 <= stored < 72
    AnsweringEngine.num_submitted = AnsweringEngine.stop_after = 0
    parts = evaluate(*options, name="parts")
    assert AnsweringEngine.num_submitted == 72 - stored
    assert responses(folder) == responses(tmp_path / "evaluations" / "whole")
    assert parts | {"name": ""} == whole | {"name": ""}
    AnsweringEngine.num_opened = 0
    assert evaluate(*options, name="parts") == parts
    assert AnsweringEngine.num_opened == 0  # nothing to draw needs no engine
    with pytest.raises(ValueError, match=r"sampling.temperature: 1.0 there, 0.5 now(.|\n)*run_name=<new name>"):
        evaluate(*options, "sampling.temperature=0.5", name="parts")


@pytest.mark.long
def test_two_models_are_compared_on_the_same_prompts(evaluate, tmp_path, capsys):
    files = plain_files(tmp_path)
    evaluate(*PLAIN, *files, name="weak")
    AnsweringEngine.skill = 0.4
    evaluate(*PLAIN, *files, f"compare={tmp_path}/evaluations/weak", name="strong")
    folder = tmp_path / "evaluations" / "strong"
    comparison = json.loads((folder / "comparison-with-weak.json").read_text())
    first, second = (json.loads((folder.parent / name / "results.json").read_text()) for name in ("weak", "strong"))
    figure = comparison["average"]["figures"]["avg"]
    gain = second["average"]["figures"]["avg_at_4"]["mean"] - first["average"]["figures"]["avg_at_4"]["mean"]
    assert figure["difference"]["mean"] == pytest.approx(gain)
    assert gain > 0.1
    assert figure["p_value"] < 0.05
    text = (folder / "comparison-with-weak.md").read_text()
    assert "# strong against weak" in text
    assert "Every prompt was matched." in text
    AnsweringEngine.num_opened = 0
    capsys.readouterr()
    evaluate(f"compare=[{folder.parent}/weak,{folder}]", scripted=False)
    assert text in capsys.readouterr().out
    assert AnsweringEngine.num_opened == 0


@pytest.mark.long
def test_a_comparison_tells_what_was_not_measured_alike(evaluate, tmp_path):
    evaluate("eval.num_samples=2", name="warm")
    evaluate("eval.num_samples=4", "sampling.temperature=0.5", f"compare={tmp_path}/evaluations/warm", name="cool")
    folder = tmp_path / "evaluations" / "cool"
    comparison = json.loads((folder / "comparison-with-warm.json").read_text())
    assert comparison["unlike"] == {"sampling.temperature": [1.0, 0.5]}
    text = (folder / "comparison-with-warm.md").read_text()
    assert "**Not measured alike** (first and second): sampling.temperature 1.0 and 0.5." in text
    with pytest.raises(ValueError, match=r"evaluates nothing, so sampling.temperature=0.5 has no effect; leave it out"):
        evaluate(f"compare=[{folder.parent}/warm,{folder}]", "sampling.temperature=0.5", scripted=False)


def test_a_file_of_ones_own(evaluate, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("question,answer\nwhat is 2 + 2?,4\nwhat is 1 + 4?,5\n")
    reward = ["reward=exact_match", "reward.reward.extraction._target_=ada_lightning.rewards.extraction.LastBoxed"]
    results = evaluate("eval=files", f"eval.sets.file.path={file}", *reward)
    assert results["sets"]["file"]["num_prompts"] == 2
    assert results["sets"]["file"]["weight"] == 2
    assert "average" in results


def make_run(tmp_path, tiny_path, *, step=3):
    """A run's folder as training leaves it, with prompts and reward of its own."""
    run_dir = tmp_path / "runs" / "mine"
    checkpoint = run_dir / "checkpoints" / f"step_{step}"
    checkpoint.mkdir(parents=True)
    (checkpoint / "policy").symlink_to(tiny_path)
    (run_dir / "checkpoints" / "last").symlink_to(checkpoint.name)
    data = tmp_path / "train.jsonl"
    write_set(data, num_prompts=9, name="run")
    config = {
        "data": {
            "_target_": "ada_lightning.data.datamodule.RolloutDataModule",
            "source": {
                "_target_": "ada_lightning.data.dataset.DatasetSource", "path": str(data), "num_heldout": 4, "seed": 7,
                "prompt_column": "problem",
            },
            "prompts_per_step": 2, "max_prompt_tokens": 200, "num_steps": 5, "seed": 7,
        },
        "reward": {
            "_target_": "ada_lightning.rewards.pool.RewardPool",
            "reward": {"_target_": "ada_lightning.rewards.math.MathReward"},
        },
        "rollout": {
            "_target_": "ada_lightning.rollout.service.RolloutService", "max_model_tokens": 300, "seed": 7,
            "engine": {
                "_target_": "tests.unit.analysis.evaluation.answering_engine.AnsweringEngine",
                "_partial_": True,
            },
            "sampling": {"_target_": "ada_lightning.core.records.SamplingSettings", "max_new_tokens": 24},
            "positive_threshold": 0.5,
        },
    }  # fmt: skip
    (run_dir / "config.yaml").write_text(yaml.safe_dump(config))
    return run_dir


def test_a_runs_checkpoint_on_its_own_heldout_prompts(evaluate, tmp_path, tiny_path):
    results = evaluate(f"checkpoint={make_run(tmp_path, tiny_path)}", "eval.num_samples=2", scripted=False)
    assert results["sets"]["heldout"]["num_prompts"] == 4
    assert results["plan"] == {
        "num_samples": 2, "positive_threshold": 0.5, "grader_failure": "as_zero", "weights": {"heldout": None},
    }  # fmt: skip
    assert results["sampling"]["max_new_tokens"] == 24
    assert Path(results["model_path"]).parent.name == "step_3"
    config = yaml.safe_load((tmp_path / "evaluations/it/config.yaml").read_text())
    assert config["label"] == "mine-step_3"
    assert config["rollout"]["seed"] == 7


@pytest.mark.parametrize("what", ["checkpoints/last", "checkpoints/step_3"])
def test_a_checkpoint_of_a_run_stands_for_the_same_as_the_run(tmp_path, tiny_path, what):
    folder = make_run(tmp_path, tiny_path)

    def expanded(path):
        arguments = expand_arguments([f"checkpoint={path}", ENGINE], tmp_path / "options", CONFIG_DIR)
        return [argument for argument in arguments if not argument.startswith("checkpoint=")]

    assert "data=of_run" in expanded(folder)
    assert expanded(folder / what) == expanded(folder)


def test_settings_of_the_run_can_be_changed(evaluate, tmp_path, tiny_path):
    changed = "data.source.num_heldout=2", "rollout.sampling.max_new_tokens=20"
    results = evaluate(f"checkpoint={make_run(tmp_path, tiny_path)}", *changed, scripted=False)
    assert results["sets"]["heldout"]["num_prompts"] == 2
    assert results["sampling"]["max_new_tokens"] == 20


def composed_of(run_dir, options, *arguments):
    """The configuration of an evaluation of a run."""
    expanded = expand_arguments([f"checkpoint={run_dir}", *arguments], options, CONFIG_DIR)
    assert override_errors(expanded, CONFIG_DIR, "evaluate") == []
    rest = [word for word in expanded if word not in ("--config-dir", str(options))]
    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        return compose("evaluate", [*rest, f"hydra.searchpath=[file://{options}]"])


SHAPES = {"max_new_tokens": 24, "temperature": 0.5, "top_p": 0.9, "top_k": 7}
CHOSEN = {
    "rollout": {
        "sampling": {"_target_": "ada_lightning.core.records.SamplingSettings", **SHAPES},
        "environment": {"_target_": "ada_lightning.rollout.episodes.pool.EnvironmentPool", "path": "a.Game"},
        "max_model_tokens": 300, "seed": 7, "seed_requests": False, "positive_threshold": 0.5, "truncated": "zero",
        "grader_failure": "as_zero",
    },
    "data": {
        "max_prompt_tokens": 200,
        "format": {"_target_": "ada_lightning.data.formats.PlainFormat", "separator": " | "},
    },
}  # fmt: skip
"""Values that are no default, of what an evaluation reads of a run whatever engine and prompts it has."""


@pytest.fixture
def run_of_its_own(tmp_path, tiny_path):
    folder = make_run(tmp_path, tiny_path)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    for group, chosen in CHOSEN.items():
        config[group] |= chosen
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


@pytest.mark.parametrize("option", ["transformers", "vllm_gpu", "ray", "'transformers'"])
def test_another_engine_draws_and_judges_as_the_runs(run_of_its_own, tmp_path, option):
    cfg = composed_of(run_of_its_own, tmp_path / "options", f"rollout={option}", "trust=true")
    assert {key: cfg.rollout[key] for key in CHOSEN["rollout"]} == CHOSEN["rollout"]
    assert (cfg.sampling.max_new_tokens, cfg.positive_threshold) == (24, 0.5)
    assert "AnsweringEngine" not in cfg.rollout.engine._target_
    assert cfg.data.source.seed == 7


def test_other_prompts_become_tokens_as_the_runs(run_of_its_own, tmp_path):
    cfg = composed_of(run_of_its_own, tmp_path / "options", "data=dataset", "data.source.path=x.jsonl", "trust=true")
    assert {key: cfg.data[key] for key in CHOSEN["data"]} == CHOSEN["data"]
    assert cfg.data.source.path == "x.jsonl"
    assert cfg.data.source.seed == 0  # the prompts are those of the command line
    assert cfg.max_prompt_tokens == 200


def test_another_reward_judges_by_the_runs_threshold(run_of_its_own, tmp_path):
    cfg = composed_of(run_of_its_own, tmp_path / "options", "reward=exact_match", "trust=true")
    assert cfg.reward.reward._target_.endswith("ExactMatchReward")
    assert cfg.positive_threshold == 0.5


def test_what_the_command_line_says_goes_before_the_run(run_of_its_own, tmp_path):
    said = [
        "rollout=transformers",
        "rollout/schedule=barrier",
        "rollout.sampling.max_new_tokens=99",
        "environment=none",
    ]
    said += ["data=dataset", "data.source.path=x.jsonl", "data/format=chat", "data.max_prompt_tokens=50"]
    cfg = composed_of(run_of_its_own, tmp_path / "options", *said, "rollout.positive_threshold=0.9", "trust=true")
    assert cfg.sampling.max_new_tokens == 99
    assert cfg.rollout.sampling.temperature == 0.5
    assert cfg.rollout.environment is None
    assert cfg.rollout.schedule._target_.endswith("Barrier")
    assert cfg.data.format._target_.endswith("ChatFormat")
    assert (cfg.max_prompt_tokens, cfg.positive_threshold) == (50, 0.9)


def test_what_stays_the_runs_is_checked_as_all_that_is_stored(run_of_its_own, tmp_path):
    with pytest.raises(ValueError, match=r"code that is not in this program .*\n.*rollout.environment.path = 'a.Game'"):
        expand_arguments([f"checkpoint={run_of_its_own}", "rollout=transformers"], tmp_path / "options", CONFIG_DIR)


def test_an_option_that_does_not_exist_is_told_as_elsewhere(run_of_its_own, tmp_path):
    argv = [f"checkpoint={run_of_its_own}", "rollout=transformer", "trust=true"]
    (error,) = override_errors(expand_arguments(argv, tmp_path / "options", CONFIG_DIR), CONFIG_DIR, "evaluate")
    assert error.startswith("unknown option rollout=transformer; did you mean transformers?")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["checkpoint=nowhere/at/all"], "checkpoint=nowhere/at/all does not exist; give a run's folder"),
        (["checkpoint=runs/ada"], "checkpoint=runs/ada does not exist"),  # beside folders it is no model of the hub
        (["checkpoint=a/b", "model=tiny"], "both name a model"),
        (["checkpoint=."], "is neither a run"),
        (["-m", "seed=1,2"], "one evaluation at a time"),
    ],
)
def test_command_lines_that_cannot_work(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(ValueError, match=message):
        expand_arguments(arguments, tmp_path, CONFIG_DIR)


@pytest.mark.parametrize("words", [["--config-dir=mine"], ["--config-dir", "mine"], ["-cd", "mine"], ["-cd=mine"]])
def test_a_folder_of_configuration_beside_that_of_the_run_is_refused(tmp_path, tiny_path, words):
    with pytest.raises(ValueError, match="--config-dir does not go with the checkpoint of a run"):
        expand_arguments([f"checkpoint={make_run(tmp_path, tiny_path)}", *words], tmp_path / "options", CONFIG_DIR)


def test_a_run_without_a_checkpoint_or_settings(tmp_path, tiny_path):
    folder = make_run(tmp_path, tiny_path)
    (folder / "config.yaml").write_text("data: {}\n")
    with pytest.raises(ValueError, match=r"cannot be read from .*config.yaml \(KeyError: 'reward'\)"):
        expand_arguments([f"checkpoint={folder}"], tmp_path, CONFIG_DIR)
    (folder / "checkpoints" / "last").unlink()
    (folder / "checkpoints" / "step_3").rename(folder / "checkpoints" / "step_3.tmp")
    with pytest.raises(ValueError, match="no complete checkpoint yet"):
        expand_arguments([f"checkpoint={folder}"], tmp_path, CONFIG_DIR)


def test_a_model_of_the_hub_brings_no_settings(tmp_path):
    assert expand_arguments(["checkpoint=some/model"], tmp_path, CONFIG_DIR) == [
        "checkpoint=some/model", "model=pretrained", "model.path='some/model'", "label='some-model'",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["eval.num_samples=0", "grader_failure=ignore"],
            r"(?s)num_samples must be an integer of at least 1; got 0.*grader_failure must be as_zero or exclude; got",
        ),
        (["eval=files"], "eval.sets.file.path needs a value"),
        (["eval.sets.heldout.weight=-1"], "eval.sets.heldout: weight must be above 0"),
        (["sampling.max_new_tokens=400"], "rollout.max_model_tokens = 320 leaves no room"),
        (["+eval.sets.more={path: x.jsonl}"], "eval.sets.more has no _target_"),
        (["~eval.sets.heldout"], "eval.sets is empty"),
        (["data.source.num_heldout=-1"], "data.source.num_heldout must be at least 0; got -1"),
        (
            ["data.num_minibatches=2"],
            "evaluate.py with these sets trains nothing, so data.num_minibatches has no effect",
        ),
        (["rollout.truncated=zero"], "so rollout.truncated has no effect"),
        (["compare=nowhere"], "compare=nowhere is no evaluation's folder and no checkpoint"),
        (["compare=[a,b,c]"], "one or two evaluations; got 3"),
        (["eval=files", "eval.sets.file.path=gone.jsonl"], "eval.sets.file: cannot read prompts from gone.jsonl"),
        (["data.source.num_heldout=0"], "eval.sets.heldout: .*no prompts are held out"),
        (["max_prompt_tokens=316", "sampling.max_new_tokens=280"], "has no room for the longest prompt of eval.sets"),
    ],
)
def test_errors_come_before_any_model(evaluate, arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate(*arguments)
    assert AnsweringEngine.num_opened == 0


def test_the_paper_composes_as_shipped():
    assert override_errors(["eval=paper", "model=qwen2_5_math_1_5b"], CONFIG_DIR, "evaluate") == []
    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        cfg = compose("evaluate", ["eval=paper", "label=x", "run_name=x"])
    assert cfg.eval.num_samples == 32
    assert (cfg.sampling.max_new_tokens, cfg.sampling.temperature) == (4096, 1.0)
    assert [cfg.eval.sets[name].weight for name in PAPER_SETS] == [500, 272, 675, 230]


def test_prompts_that_cannot_be_graded_are_left_out_and_told(evaluate, tmp_path):
    files = [*files_of(tmp_path), "~eval.sets.minerva", "~eval.minerva_reward"]
    with (tmp_path / "math500.jsonl").open("a") as file:
        file.write(json.dumps({"problem": "what is unreadable?", "answer": "\\frac{1}{"}) + "\n")
    with pytest.warns(UserWarning, match=r"MathReward cannot grade 1 of 7 eval.sets.math500 prompts"):
        results = evaluate(*PAPER, *files)
    assert results["left_out"] == {"math500": 1, "olympiadbench": 0, "aime_like": 0}
    assert results["sets"]["math500"]["num_prompts"] == 6
    text = (tmp_path / "evaluations/it/results.md").read_text()
    assert "Prompts left out, too long or without an answer that can be graded: 1 of math500." in text
