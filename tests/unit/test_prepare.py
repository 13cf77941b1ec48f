"""prepare.py from the configuration to its files; the engine is scripted, the rest is real."""

from __future__ import annotations

import json
import signal

import pyarrow.parquet as pq
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from ada_lightning.analysis.offline import sampling_job
from ada_lightning.config.check import ConfigError, check_config, override_errors
from ada_lightning.config.prepare import UNUSED, check_prepare_config
from ada_lightning.programs.prepare import prepare, train_command
from ada_lightning.programs.start import CONFIG_DIR as CONF
from ada_lightning.run.stopping import SamplingStoppedError
from tests.unit.analysis.offline import right_or_wrong

SCRIPTED = [
    "model=tiny",
    "reward=function",
    "reward.reward.path=tests.unit.analysis.offline.right_or_wrong.is_one",
    "data.source.num_train=12",
    "data.source.num_heldout=3",
    "num_samples=8",
    "prompts_per_file=2",
    "band=hard",
]
ENGINE = "tests.unit.analysis.offline.right_or_wrong.RightOrWrongEngine"


def composed(*overrides, name="prepare"):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(name, list(overrides))


def config(folder, *overrides):
    """The scripted engine has no use for vLLM's settings, which its keys are checked against."""
    cfg = composed(f"run_name={folder.name}", f"run_dir={folder}", *SCRIPTED, *overrides)
    cfg.rollout.engine = {"_target_": ENGINE, "_partial_": True, "max_num_seqs": 8, "dtype": "float32"}
    return cfg


def run(folder, *overrides):
    cfg = config(folder, *overrides)
    check_prepare_config(cfg)
    return prepare(cfg)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "whole"
    run(folder)
    return folder


def test_a_finished_job_leaves_everything(whole):
    for name in ("pass_rates.png", "engine.log", "config.yaml", "job.json", "history.json", "selected.parquet"):
        assert (whole / name).exists() or name == "engine.log", name
    summary = json.loads((whole / "summary.json").read_text())
    assert (summary["num_prompts"], summary["num_responses"]) == (12, 96)
    rows = pq.read_table(whole / "prompts.parquet").to_pylist()
    assert {row["pass_rate"] for row in rows} >= {0.0, 1.0}
    selected = [row for row in rows if row["is_selected"]]
    assert len(selected) == summary["num_selected"] > 0
    assert all(row["num_positive"] == 1 for row in selected)  # hard: at most an eighth of 8


def test_a_stopped_job_continues_to_the_same_files(whole, tmp_path, monkeypatch):
    folder = tmp_path / "stopped"

    class Display(sampling_job.SamplingProgress):
        def report(self, counts):
            if counts.num_prompts == 5:
                signal.raise_signal(signal.SIGTERM)

    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patched:
        patched.setattr(sampling_job, "SamplingProgress", Display)
        patched.setattr(right_or_wrong.RightOrWrongEngine, "num_to_deliver", 42)  # five prompts and a quarter
        with pytest.raises(SamplingStoppedError, match=r"SIGTERM: 5 of 12 prompts are stored in .*stopped; the"):
            run(folder)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert not (folder / "summary.json").exists()
    run(folder)
    for name in ("prompts.parquet", "selected.parquet"):
        assert pq.read_table(folder / name) == pq.read_table(whole / name)
    for name in ("summary.json", "history.json"):
        assert (folder / name).read_text() == (whole / name).read_text()


def test_another_band_or_threshold_draws_nothing_anew(whole, capsys):
    before = {path: path.stat().st_mtime_ns for path in (whole / "responses").iterdir()}
    num_opened = len(right_or_wrong.opened)
    num_hard = pq.read_table(whole / "selected.parquet").num_rows
    num_all = run(whole, "band=all")
    assert num_all == 12 > num_hard
    assert f"all 12 prompts are already stored in {whole}; only the selection" in capsys.readouterr().out
    assert run(whole, "rollout.positive_threshold=1.5", "band=all", "band.max_positive=0") == 12
    assert run(whole) == num_hard
    assert len(right_or_wrong.opened) == num_opened
    assert {path: path.stat().st_mtime_ns for path in (whole / "responses").iterdir()} == before


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("num_samples=16", "num_samples: 8 there, 16 now"),
        ("seed=1", "seed.run: 0 there, 1 now"),
        ("rollout.sampling.temperature=0.7", "sampling.temperature: 1.0 there, 0.7 now"),
        ("data.source.num_train=11", "data.num_prompts: 12 there, 11 now"),
        ("data.source.seed=4", "data.prompts: "),
        ("model.seed=4", "model.weights: "),
        ("reward.reward.path=tests.integration.graders.has_few_letters", "reward.path: "),
    ],
)
def test_a_folder_never_mixes_two_jobs(whole, override, named):
    with pytest.raises(ValueError, match="drawn with other settings") as caught:
        run(whole, override)
    assert named in str(caught.value)
    assert "run_name=<new name>" in str(caught.value)


def test_the_command_trains_on_the_selection(whole):
    """Composed and checked as train.py would, with the engine that is configured there."""
    command = train_command(
        composed(f"run_dir={whole}", *SCRIPTED), [*SCRIPTED, "+data.source.tasks.chain_sum.weight=2"]
    ).split()
    assert command[:3] == ["python", "train.py", "+experiment=grpo_chosen"]
    assert not override_errors(command[2:], CONF, "train")
    cfg = composed(*command[2:], name="train")
    assert cfg.data.only == str(whole)
    cfg.callbacks.evaluation.num_prompts = 3
    check_config(cfg)
    from hydra.utils import instantiate

    data = instantiate(cfg.data)
    assert len(data.only.keep(data.source.train_prompts())) == pq.read_table(whole / "selected.parquet").num_rows


def test_what_only_preparing_knows_is_left_out_of_the_command():
    overrides = [
        "run_name=a",
        "band=hard",
        "band.min_positive=2",
        "num_samples=4",
        "data.only=b",
        "data=jsonl",
        "seed=3",
    ]
    assert train_command(OmegaConf.create({"run_dir": "a b"}), overrides) == (
        "python train.py +experiment=grpo_chosen data=jsonl seed=3 'data.only=a b' "
        "'estimator.history_file=a b/history.json'"
    )


def test_all_problems_are_found_at_once():
    cfg = composed(
        "run_name=a", "num_samples=0", "rollout.max_model_tokens=100", "+rollout.enginee=1", "band.max_pass_rate=2"
    )
    with pytest.raises(ConfigError) as caught:
        check_prepare_config(cfg, ["data.num_minibatches=2", "rollout/schedule=barrier"])
    text = str(caught.value)
    for part in (
        "num_samples must be an integer of at least 1; got 0",
        "rollout.max_model_tokens = 100 is less than",
        "rollout.enginee; did you mean engine?",
        "band: band needs 0 <= min_pass_rate <= max_pass_rate <= 1",
        "data.num_minibatches=2: prepare.py trains nothing, so data.num_minibatches has no effect",
        "rollout/schedule=barrier: prepare.py trains nothing",
    ):
        assert part in text, part


def test_a_band_that_no_prompt_can_be_in_is_refused_before_anything_loads():
    with pytest.raises(ConfigError, match=r"(?s)2 problems.*band keeps no prompt with num_samples = 4"):
        check_prepare_config(
            composed("run_name=a", "num_samples=4", "band=hard", "prompts_per_file=64", "data.only=no")
        )


def test_misspelt_keys_are_refused():
    assert override_errors(["num_sample=3"], CONF, "prepare") == ["unknown key num_sample; did you mean num_samples?"]
    assert override_errors(["band=hrad"], CONF, "prepare")[0].startswith("unknown option band=hrad; did you mean hard?")


def test_keys_without_effect_are_keys():
    """A renamed one would be accepted and ignored again."""
    cfg = composed("run_name=a")
    from omegaconf import OmegaConf

    for key in set(UNUSED) - {"data.curriculum"}:  # training adds that one itself
        assert OmegaConf.select(cfg, key) is not None, key
    assert all(OverridesParser.create().parse_override(f"{key}=1") for key in UNUSED)


def test_the_command_that_trains_evaluates_where_the_preparation_held_nothing_out(tmp_path):
    (tmp_path / "summary.json").write_text('{"num_prompts": 45}')
    overrides = ["data=jsonl", "data.source.path=sums.jsonl", "data.source.num_heldout=0"]
    for num_heldout, expected in ((0, 4), (7, 7)):
        cfg = OmegaConf.create({"run_dir": str(tmp_path), "data": {"source": {"num_heldout": num_heldout}}})
        overrides[-1] = f"data.source.num_heldout={num_heldout}"
        command = train_command(cfg, overrides).split()
        assert [part for part in command if "num_heldout" in part] == [f"data.source.num_heldout={expected}"]
