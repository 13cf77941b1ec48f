"""Settings of an engine that the model or the machine has no room for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from ada_lightning.config.engine import model_errors
from ada_lightning.config.evaluation import check_evaluation
from ada_lightning.config.prepare import check_prepare_config
from ada_lightning.config.problems import ConfigError
from ada_lightning.config.setup import Setup
from ada_lightning.parallel import hardware
from tests.unit.config.composing import composed, problems

CONF = Path(__file__).resolve().parents[3] / "conf"


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(hardware, "count_gpus", lambda: 0)


@pytest.mark.parametrize(
    ("overrides", "begin"),
    [
        (["model=tiny", "rollout.max_model_tokens=8200"], "rollout.max_model_tokens = 8200 is more than the model can"),
        (
            ["rollout.max_model_tokens=8193"],
            "rollout.max_model_tokens = 8193 is more than the model can attend to, 8192",
        ),
        (["rollout=vllm_gpu"], "rollout.engine.enforce_eager = false, as in rollout=vllm_gpu"),
        (["+rollout.engine.tensor_parallel_size=2"], "rollout.engine.tensor_parallel_size = 2 does not divide the mod"),
        (["rollout.engine.kv_cache_gib=1000000"], "rollout.engine.kv_cache_gib = 1000000 is more than the memory of"),
        # 2 (keys, values) x 30 layers x 3 heads x 64 x 2 bytes x 320 tokens = 0.00687 GiB
        (
            ["rollout.engine.kv_cache_gib=0.0068"],
            "rollout.engine.kv_cache_gib = 0.0068 cannot hold one sequence of rol",
        ),
    ],
)
def test_what_the_engine_has_no_room_for_is_refused_in_one_sentence(overrides, begin):
    (found,) = problems(*overrides)
    assert found.startswith(begin)


@pytest.mark.parametrize(
    "overrides",
    [
        ["model=tiny", "rollout.max_model_tokens=8192"],
        ["rollout.engine.kv_cache_gib=0.0069"],
        ["+rollout.engine.tensor_parallel_size=3"],
        ["rollout=ray", "rollout.engine.enforce_eager=false"],
        ["trainer=gpu", "rollout=vllm_gpu"],
    ],
)
def test_what_there_is_room_for_passes(overrides):
    assert list(model_errors(Setup(composed(*overrides)))) == []


def test_on_a_machine_with_a_gpu_its_engine_is_not_judged(monkeypatch):
    monkeypatch.setattr(hardware, "count_gpus", lambda: 1)
    assert list(model_errors(Setup(composed("rollout=vllm_gpu")))) == []


@pytest.mark.parametrize(
    ("rope", "num_problems"),
    [
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, 1),
        ({"rope_scaling": {"type": "linear", "factor": 8.0}}, 0),
        ({"rope_scaling": None}, 1),
    ],
)
def test_a_folder_of_ones_own_is_read_and_scaled_positions_are_left_to_the_engine(tmp_path, rope, num_problems):
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 256, **rope}))
    found = list(model_errors(Setup(composed("model=pretrained", f"model.path={tmp_path}"))))
    assert len(found) == num_problems
    assert all("rollout.max_model_tokens = 320" in message for message in found)


def test_programs_that_train_nothing_refuse_it_too():
    options = ["run_name=x", "model=tiny", "rollout.max_model_tokens=9000"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        with pytest.raises(ConfigError, match="9000 is more than the model can attend to, 8192 tokens"):
            check_prepare_config(compose("prepare", options))
        with pytest.raises(ConfigError, match="9000 is more than the model can attend to, 8192 tokens"):
            check_evaluation(compose("evaluate", [*options, "label=x"]))
