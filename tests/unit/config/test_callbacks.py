"""Arguments of engines, callbacks, loggers and the trainer that are refused before any model loads."""

from __future__ import annotations

import sys

import pytest
from hydra import compose, initialize_config_dir
from lightning.pytorch import Callback

from ada_lightning.config.check import check_config
from ada_lightning.config.evaluation import check_evaluation
from ada_lightning.config.prepare import check_prepare_config
from ada_lightning.config.problems import ConfigError
from ada_lightning.programs.start import CONFIG_DIR as CONF
from ada_lightning.rollout.engines.vllm_engine import VllmEngine
from tests.unit.config.composing import composed, problems


class Connecting(Callback):
    """A callback of somebody else, whose constructor does more than to note what it is given."""

    def __init__(self) -> None:
        raise AssertionError("made by the check")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rollout.engine.dtype=bf16", "rollout.engine.dtype must be bfloat16, float16 or float32; got bf16"),
        ("rollout.engine.kv_cache_gib=0", "rollout.engine.kv_cache_gib must be positive; got 0"),
        ("rollout.engine.max_num_seqs=0", "rollout.engine.max_num_seqs must be positive; got 0"),
        ("callbacks.curves.every_n_steps=0", "callbacks.curves: every_n_steps must be at least 1; got 0"),
        ("callbacks.budget.max_generated_tokens=0", "callbacks.budget.max_generated_tokens must be above 0"),
        ("callbacks.budget.max_seconds=abc", "callbacks.budget.max_seconds=abc is the word 'abc', write a number"),
        ("callbacks.response_log.max_prompts=0", "callbacks.response_log: max_prompts must be a whole number"),
        ("callbacks.sample_page.max_prompts=0", "callbacks.sample_page: max_prompts must be at least 1"),
        ("callbacks.sampling_plots.every_n_steps=0", "callbacks.sampling_plots: every_n_steps must be at least 1"),
        ("logger.mlflow.max_outbox_mb=0", "logger.mlflow: logger.mlflow.max_outbox_mb is gone"),
        ("trainer.accelerator=gpuu", "trainer.accelerator = gpuu is no kind of device; use one of auto, cpu, cuda"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_the_check(override, message):
    (found,) = problems(override)
    assert message in found


def test_the_check_leaves_nothing_in_the_run_folder(tmp_path):
    check_config(composed(f"run_dir={tmp_path / 'run'}", f"logger.mlflow.tracking_uri=sqlite:///{tmp_path}/mlflow.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_callback_of_another_package_is_not_made_by_the_check():
    check_config(composed(f"+callbacks.mine._target_={__name__}.Connecting"))


def test_the_other_programs_refuse_an_engine_and_a_logger_that_cannot_work():
    with initialize_config_dir(str(CONF), version_base="1.3"):
        prepare = compose("prepare", ["rollout.engine.dtype=bf16", "run_name=x"])
        evaluate = compose(
            "evaluate", ["rollout.engine.dtype=bf16", "+mlflow.max_outbox_mb=0", "run_name=x", "label=x"]
        )
        with pytest.raises(ConfigError, match="got bf16") as error:
            check_prepare_config(prepare)
        assert len(error.value.problems) == 1
        with pytest.raises(ConfigError, match="got bf16") as error:
            check_evaluation(evaluate)
        assert [line.split(":")[0] for line in error.value.problems] == ["rollout", "mlflow"]


def test_an_engine_names_all_of_its_wrong_arguments_without_vllm(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    wrong = {"kv_cache_gib": -1, "block_size": 0, "dtype": "int8", "sleep_level": 3}
    with pytest.raises(ValueError, match="got -1") as error:
        VllmEngine.check_arguments(**wrong)
    for name in wrong:
        assert f"rollout.engine.{name} must be" in str(error.value)
    VllmEngine.check_arguments(kv_cache_gib=1, enforce_eager=True)
