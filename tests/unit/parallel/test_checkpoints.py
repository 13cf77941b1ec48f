"""A checkpoint is the same whoever writes it, and any number of processes continues it."""

from __future__ import annotations

import json

import pytest
import torch

from tests.unit.parallel.checkpoint_runs import read_folder, run_steps

SAME = {"rtol": 1e-5, "atol": 1e-6}  # float32 sums in another order, through three updates


@pytest.fixture(scope="module")
def whole_run(tiny_path, tmp_path_factory):
    return run_steps("alone", tiny_path, tmp_path_factory.mktemp("whole"), num_steps=3)


def run(pair, kind, *arguments, **options):
    if kind == "alone":
        return run_steps(kind, *arguments, **options)
    (weights, other) = pair.run(_run, kind=kind, arguments=arguments, options=options)
    torch.testing.assert_close(weights, other, rtol=0, atol=0)
    return weights


def _run(kind, arguments, options):
    return run_steps(kind, *arguments, **options)


@pytest.mark.parametrize(
    ("first", "then", "options"),
    [
        ("ddp", "fsdp", {"tensor_parallel_size": 2}),
        pytest.param("fsdp", "fsdp", {}, marks=pytest.mark.long),
        pytest.param("fsdp", "alone", {}, marks=pytest.mark.long),
        pytest.param("alone", "fsdp", {}, marks=pytest.mark.long),
        pytest.param("fsdp", "ddp", {}, marks=pytest.mark.long),
    ],
)
def test_a_run_goes_on_with_other_processes(pair, tiny_path, tmp_path, whole_run, first, then, options):
    run(pair, first, tiny_path, tmp_path, num_steps=2)
    weights = run(pair, then, tiny_path, tmp_path, num_steps=3, resume=True, **options)
    torch.testing.assert_close(weights, whole_run, **SAME)
    state = torch.load(tmp_path / "checkpoints/last/trainer.ckpt", weights_only=True)
    assert state["rollout_checkpoint"] == {"global_step": 3, "policy_version": 3}
    names = {path.name for path in (tmp_path / "checkpoints/last").resolve().iterdir()}
    assert names == {"manifest.json", "policy", "trainer.ckpt"} | ({"optimizer"} if then == "fsdp" else set())


def test_without_the_optimizer_a_continued_run_is_another(pair, tiny_path, tmp_path, whole_run, monkeypatch):
    """What the tests above would miss if the state were lost: they compare to better than this."""
    run(pair, "fsdp", tiny_path, tmp_path, num_steps=2)
    monkeypatch.setattr("ada_lightning.callbacks.checkpoint.whole_optimizer_state", lambda folder, model, settings: {
        "state": {}, "param_groups": [{**settings, "params": list(range(len(list(model.parameters()))))}]
    })  # fmt: skip
    weights = run(pair, "alone", tiny_path, tmp_path, num_steps=3, resume=True)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(weights, whole_run, **SAME)


def test_the_folder_is_the_one_that_transformers_writes(pair, tiny_path, tmp_path):
    from transformers import AutoModelForCausalLM

    run(pair, "fsdp", tiny_path, tmp_path / "fsdp", num_steps=1)
    run(pair, "alone", tiny_path, tmp_path / "alone", num_steps=1)
    ours, theirs = (tmp_path / kind / "checkpoints/step_000001/policy" for kind in ("fsdp", "alone"))
    assert {file.name for file in ours.iterdir()} == {file.name for file in theirs.iterdir()}
    for name in ("config.json", "generation_config.json"):
        assert json.loads((ours / name).read_text()) == json.loads((theirs / name).read_text())
    torch.testing.assert_close(read_folder(ours), read_folder(theirs), **SAME)
    loaded = AutoModelForCausalLM.from_pretrained(ours, dtype=torch.float32)
    torch.testing.assert_close(dict(loaded.named_parameters()), read_folder(ours), rtol=0, atol=0)
