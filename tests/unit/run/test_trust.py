"""Run folders from somebody else: nothing that they name runs unless this program or its user named it too."""

from __future__ import annotations

import ast
import copy
import json
import pickle
import re
import shutil
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
import yaml

from ada_lightning.analysis.evaluation.checkpoint import expand_arguments
from ada_lightning.config.assembly import read_model
from ada_lightning.config.keys import locate
from ada_lightning.methods.catalog import entries, named_by
from ada_lightning.parallel.optimizer_state import SafePlanner, SafeReader
from ada_lightning.parallel.sharding import empty_model
from ada_lightning.run.checkpoints import write_manifest
from ada_lightning.run.trust import check_stored

ROOT = Path(__file__).parents[3]
CONFIG_DIR = ROOT / "conf"
OWN = "ada_lightning"
GOOD = {
    "data": {
        "_target_": f"{OWN}.data.datamodule.RolloutDataModule",
        "source": {"_target_": f"{OWN}.data.dataset.DatasetSource", "path": "train.jsonl", "num_heldout": 4},
    },
    "reward": {
        "_target_": f"{OWN}.rewards.pool.RewardPool",
        "output_file": None,
        "reward": {
            "_target_": f"{OWN}.rewards.exact_match.ExactMatchReward",
            "extraction": {
                "_target_": f"{OWN}.rewards.extraction.FirstOf",
                "extractions": [{"_target_": f"{OWN}.rewards.extraction.LastQuantity"}],
            },
        },
    },
    "rollout": {
        "_target_": f"{OWN}.rollout.service.RolloutService",
        "engine": {"_target_": f"{OWN}.rollout.engines.vllm_engine.VllmEngine", "_partial_": True, "extra": None},
        "host": {"_target_": f"{OWN}.rollout.engines.process_pool.ProcessPool", "environment": {}},
        "schedule": {"_target_": f"{OWN}.core.schedule.Continuous"},
    },
}


def target(name, **arguments):
    return {"_target_": name, **arguments}


FUNCTION = f"{OWN}.rewards.function.FunctionReward"
EVIL = {
    "pandas.read_pickle": ("data.source", target("pandas.read_pickle", filepath_or_buffer="x.pkl")),
    "torch.load": ("data.source", target("torch.load", f="x.pt", weights_only=False)),
    "a function reward": ("reward.reward", target(FUNCTION, path="subprocess.getoutput")),
    "a function reward by position": ("reward.reward", target(FUNCTION, _args_=["subprocess.getoutput"])),
    "verl": ("reward.reward", target(f"{OWN}.rewards.verl_function.VerlFunctionReward", path="os.system")),
    "trl": ("reward.reward", target(f"{OWN}.rewards.trl_function.TrlFunctionReward", path="os.system")),
    "function import": ("reward.reward", target(f"{OWN}.rewards.user_function.UserFunction", path="a.b")),
    "deep in a list": ("data.source.filters", [{"deeper": [target("os.system", _args_=["id"])]}]),
    "deep in the rollout": ("rollout.schedule.more", target("builtins.exec", _args_=["1"])),
    "get_method": ("data.source", target("hydra.utils.get_method", path="os.system")),
    "instantiate": ("data.source", target("hydra.utils.instantiate", config={})),
    "an import of an own module": ("data.source", target(f"{OWN}.run.run_dir.shutil.rmtree", path="x")),
    "an import of a data module": ("data.source", target(f"{OWN}.data.reasoning_gym.pickle.loads")),
    "an import within an own class": ("data.source", target(f"{OWN}.rewards.pool.Path")),
    "an own method": ("data.source", target(f"{OWN}.rewards.user_function.UserFunction.call")),
    "an own function": ("data.source", target(f"{OWN}.data.hub.read_dataset", path="x")),
    "another own package": ("data.source", target(f"{OWN}.run.run_lock.RunLock", folder="x")),
    "a target by interpolation": ("data.source._target_", "${oc.env:HOME}"),
    "a value by interpolation": ("data.source.path", "${oc.env:HOME}"),
    "no name": ("data.source._target_", ["os.system"]),
    "a defaults list": ("data.defaults", ["/hydra/launcher: x"]),
    "what vLLM loads": ("rollout.engine.extra", {"worker_cls": "evil.Worker", "trust_remote_code": True}),
    "what a process preloads": ("rollout.host.environment", {"LD_PRELOAD": "/tmp/evil.so"}),
    "another machine": ("rollout.host.address", "evil.example:6379"),
    "a file to write to": ("reward.output_file", "/home/me/.bashrc"),
}


def with_value(settings, key, value):
    settings = copy.deepcopy(settings)
    *parents, name = key.split(".")
    node = settings
    for parent in parents:
        node = node[parent]
    node[name] = value
    return settings


def check(settings, *argv):
    check_stored(settings, shipped=partial(named_by, CONFIG_DIR), argv=argv, where="runs/theirs")


@pytest.mark.parametrize("name", EVIL)
def test_what_a_folder_must_not_run_is_refused_by_name(name):
    key, value = EVIL[name]
    with pytest.raises(ValueError, match=r"the settings of runs/theirs would run") as refused:
        check(with_value(GOOD, key, value))
    assert f"\n  {key}" in str(refused.value)
    assert "trust=true" in str(refused.value)


def test_all_of_it_is_told_at_once_and_own_classes_are_no_strangers():
    check(GOOD)
    settings = with_value(with_value(GOOD, *EVIL["torch.load"]), *EVIL["a function reward"])
    with pytest.raises(ValueError, match=r"data.source._target_ = 'torch.load'\n  reward.reward.path = 'subprocess"):
        check(settings)


def plain(node):
    """Settings of a file as a run stores them: resolved, without a defaults list."""
    if isinstance(node, dict):
        return {key: plain(value) for key, value in node.items() if key != "defaults"}
    if isinstance(node, list):
        return [plain(item) for item in node]
    return "resolved" if isinstance(node, str) and ("${" in node or node == "???") else node


def targets(node):
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from targets(value)
    if isinstance(node, dict) and "_target_" in node:
        yield node["_target_"]


@pytest.mark.parametrize("part", ["data", "reward", "rollout"])
def test_what_ships_runs_from_a_folder_too(part):
    files = [file.read_text() for file in sorted((CONFIG_DIR / part).rglob("*.yaml"))]
    nodes = [yaml.safe_load(text) or {} for text in files if "@package" not in text]
    made = [each for path, each in entries().items() if path.startswith(f"{part}/")]
    for node in (*nodes, *(each.node for each in made if each.package is None)):
        settings = plain({key: value for key, value in node.items() if key != "defaults"})
        assert all(isinstance(locate(target), type) for target in targets(settings))
        path = settings.get("reward", {}).get("path") if part == "reward" else None
        check({part: settings}, *([f"reward.reward.path={path}"] if path else []))


@pytest.mark.parametrize("given", ["path=subprocess.getoutput", "path=my_rewards.grade"])
def test_what_is_given_on_this_command_line_may_run(given):
    check(with_value(GOOD, *EVIL["a function reward"]), f"reward.reward.{given}")
    check(with_value(GOOD, *EVIL["a function reward"]), "reward.reward={path: subprocess.getoutput}")
    settings = with_value(GOOD, "rollout.engine._target_", "my_engines.Fast")
    check(settings, "rollout.engine._target_=my_engines.Fast")
    with pytest.raises(ValueError, match=r"rollout.engine._target_ = 'my_engines.Fast'"):
        check(settings, "label=my_engines.Faster")


def their_run(folder, settings, tiny_path):
    """A run's folder as somebody may have made it, with a file in it that a pickle would leave behind."""
    policy = folder / "checkpoints" / "step_000001" / "policy"
    shutil.copytree(tiny_path, policy)
    torch.save({}, policy.parent / "trainer.ckpt")
    write_manifest(policy.parent, policy_version=1)
    (folder / "checkpoints" / "last").symlink_to("step_000001")
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (folder / "metrics.csv").write_text("step,train/loss\n0,1.0\n")
    return folder


class Touch:
    """Leaves a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def their_model(folder, tiny_path, *, ran):
    """A model of a kind that transformers does not have, with the code that it would need."""
    shutil.copytree(tiny_path, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "theirs",
        "auto_map": {"AutoConfig": "theirs.Theirs", "AutoModelForCausalLM": "theirs.Model"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer |= {"tokenizer_class": "Theirs", "auto_map": {"AutoTokenizer": ["theirs.Theirs", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (folder / "theirs.py").write_text(f"open({str(ran)!r}, 'w')\n")
    return folder


@pytest.mark.vllm  # what the programs are forked from has imported it
def test_no_program_runs_what_a_folder_names(tmp_path, tiny_path, programs):
    ran = tmp_path / "ran"
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(Touch(ran)))
    evil = with_value(GOOD, "data.source", {"_target_": "pandas.read_pickle", "filepath_or_buffer": "x.pkl"})
    folder = their_run(tmp_path / "runs" / "theirs", evil, tiny_path)
    commands = {
        "evaluate": ("evaluate.py", f"checkpoint={folder}", "mlflow=null"),
        "resume": ("train.py", "+experiment=grpo", "model=tiny", "ckpt=last", "run_name=theirs", "~logger.mlflow"),
        "report": ("report.py", str(folder), "--output", str(tmp_path / "report.html")),
        "prepare": ("prepare.py", "model=tiny", f"data.only={folder}"),
    }
    done = {
        name: programs.run(*command, cwd=tmp_path, environment={"HOME": str(tmp_path)})
        for name, command in commands.items()
    }
    assert not ran.exists(), done
    assert "data.source._target_ = 'pandas.read_pickle'" in done["evaluate"].stderr
    assert done["evaluate"].returncode == 1
    assert "go on with another method" in done["resume"].stderr
    assert "data.only" in done["prepare"].stderr


@pytest.mark.parametrize("key", ["data.source", "reward.reward", "rollout.engine"])
def test_a_folder_is_refused_before_anything_is_composed(tmp_path, tiny_path, key):
    folder = their_run(tmp_path / "theirs", with_value(GOOD, f"{key}._target_", "antigravity.fly"), tiny_path)
    argv = [f"checkpoint={folder}"]
    with pytest.raises(ValueError, match=f"{key}._target_ = 'antigravity.fly'"):
        expand_arguments(argv, tmp_path, CONFIG_DIR)
    assert "antigravity" not in sys.modules
    part = key.partition(".")[0]
    own = f"{part}={'vllm_cpu' if part == 'rollout' else 'reasoning_gym'}"
    for way_out in ("trust=true", own):
        expand_arguments([*argv, way_out], tmp_path, CONFIG_DIR)


def test_a_flipped_byte_in_the_weights_gives_no_figures_and_a_missing_trainers_state_does(tmp_path, tiny_path):
    folder = their_run(tmp_path / "theirs", GOOD, tiny_path)
    step = folder / "checkpoints" / "step_000001"
    (step / "trainer.ckpt").unlink()
    expand_arguments([f"checkpoint={folder}"], tmp_path, CONFIG_DIR)
    weights = step / "policy" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    for named in (folder, folder / "checkpoints" / "last", step / "policy"):
        with pytest.raises(ValueError, match=r"damaged: policy/model.safetensors has \d+ bytes, but not those"):
            expand_arguments([f"checkpoint={named}"], tmp_path, CONFIG_DIR)


@pytest.mark.parametrize("where", ["list of tensors", "value", "nowhere"])
def test_the_optimisers_state_of_a_folder_is_read_as_torch_reads_it_and_runs_nothing(tmp_path, where):
    ran, folder = tmp_path / "ran", tmp_path / "optimizer"
    state = {"a.exp_avg": torch.ones(2), "a.step": torch.tensor(1.0), "kind": Touch(ran) if where == "value" else "x"}
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder), no_dist=True)
    if where == "list of tensors":
        (folder / ".metadata").write_bytes(pickle.dumps(Touch(ran)))
    read = {"a.exp_avg": torch.zeros(2), "a.step": torch.tensor(0.0), "kind": None}
    refused = pytest.raises((ValueError, dcp.api.CheckpointException)) if where != "nowhere" else nullcontext()
    with refused:
        dcp.load(read, storage_reader=SafeReader(folder), planner=SafePlanner(), no_dist=True)
    assert not ran.exists()
    if where == "nowhere":
        assert (read["a.exp_avg"].tolist(), read["kind"]) == ([1.0, 1.0], "x")


def test_a_models_own_code_is_never_run(tmp_path, tiny_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    folder = their_model(tmp_path / "model", tiny_path, ran=tmp_path / "ran")
    with pytest.raises(ValueError, match="trust_remote_code"):
        read_model(folder)
    with pytest.raises(ValueError, match="trust_remote_code"):
        empty_model(folder, "sdpa")
    assert not (tmp_path / "ran").exists()


def test_every_loader_of_a_model_says_that_its_code_is_not_run():
    calls = [
        (file, node)
        for folder in ("ada_lightning", "callbacks", "research", "scripts")
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and re.fullmatch(r"(kind|Auto\w+)\.from_pretrained", ast.unparse(node.func))
    ]
    assert len(calls) >= 12
    for file, call in calls:
        assert "trust_remote_code=False" in ast.unparse(call) or "**given" in ast.unparse(call), (file, call.lineno)
