"""A run's weights as a Hugging Face folder: what is in it, who can load it, what is refused, where it is pushed."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from ada_lightning.analysis.evaluation.intervals import estimate_means
from ada_lightning.programs.export import main
from ada_lightning.run.checkpoints import write_manifest
from tests.unit.analysis.export.hub_stand_in import TOKEN, HubStandIn
from tests.unit.analysis.report.small_folder import write_run

STATEMENT = "optimises log p as far as 16 responses can see"
SETTINGS = {
    "model": {"_target_": "ada_lightning.training.models.pretrained.Pretrained", "path": "some/base-model"},
    "sampler": {"_target_": "ada_lightning.methods.sampling.BalanceSampler", "k_pos": 2, "note": "a|b `c`"},
    "rollout": {"sampling": {"max_new_tokens": 32}},
}
FIRST, LAST = np.array([0.0, 0.25, 0.5, 0.0, 0.25]), np.array([0.5, 1.0, 0.75, 0.25, 0.5])
"""Held-out rates of five prompts."""


@pytest.fixture
def run(tmp_path, tiny_path):
    """Folder of a run with two checkpoints of four and two updates; the later one has an average, too."""
    folder = write_run(
        tmp_path / "runs" / "mine", experiment="ada_seq_balance", heldout={0: FIRST.mean(), 4: LAST.mean()},
        settings=SETTINGS, metrics=[{}, {}, {}, {}, {"eval_average/avg_at_4": 0.75}],
    )  # fmt: skip
    config = folder / "config.yaml"
    config.write_text("# python train.py +experiment=ada_seq_balance num_steps=4\n" + config.read_text())
    (folder / "objective.txt").write_text(STATEMENT + "\n")
    (folder / "curves.png").write_bytes(b"\x89PNG of the curves")
    kept = {"dropped": {}, "kept": 9, "kept_by_task": {"": 9}, "dropped_prompts": []}
    reading = [{"origin": "problems.jsonl", "read": 12, "kept": 9}]
    (folder / "data_report.json").write_text(json.dumps({"reading": reading, "train": kept, "heldout": kept}))
    for version, rates in ((0, FIRST), (4, LAST)):
        (folder / "responses" / "eval").mkdir(parents=True, exist_ok=True)
        frame = pd.DataFrame(
            [
                {"policy_version": version, "slot": slot, "prompt_id": f"p{slot}", "reward": float(index < 4 * rate)}
                for slot, rate in enumerate(rates)
                for index in range(4)
            ]
        )
        frame.to_parquet(folder / "responses" / "eval" / f"step_{version:06d}.parquet")
    for version in (2, 4):
        checkpoint = folder / "checkpoints" / f"step_{version:06d}"
        for weights in ("policy", "policy_average")[: version // 2]:
            shutil.copytree(tiny_path, checkpoint / weights)
        (checkpoint / "trainer.ckpt").write_bytes(b"state")
        write_manifest(checkpoint, policy_version=version)
    (folder / "checkpoints" / "last").symlink_to("step_000004")
    return folder


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert isinstance(end.value.code, str), capsys.readouterr().err
    return end.value.code


def card_of(folder):
    _, head, text = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(head), text


def test_the_folder_loads_in_transformers_and_computes_what_the_checkpoint_does(run, tmp_path, capsys):
    from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

    output = tmp_path / "exported"
    main([str(run), "--output", str(output)])
    assert f"{output}: " in capsys.readouterr().out
    weights = run / "checkpoints" / "last" / "policy"
    assert {path.name for path in output.iterdir()} == {path.name for path in weights.iterdir()} | {
        "README.md", "curves.png"
    }  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(output)
    tokens = torch.tensor([tokenizer("1 + 1 =").input_ids])
    exported, trained = (AutoModelForCausalLM.from_pretrained(path)(tokens).logits for path in (output, weights))
    assert torch.equal(exported, trained)
    generate = pipeline("text-generation", model=str(output))  # as the card says
    (answer,) = generate([{"role": "user", "content": "1 + 1 = ?"}], max_new_tokens=2)
    assert answer["generated_text"][-1]["role"] == "assistant"


def test_the_card_says_what_was_done_what_was_optimised_and_what_came_out(run, tmp_path):
    main([str(run), "--output", str(tmp_path / "exported")])
    head, text = card_of(tmp_path / "exported")
    assert head["base_model"] == "some/base-model"
    assert (head["library_name"], head["pipeline_tag"]) == ("transformers", "text-generation")
    (result,) = head["model-index"][0]["results"]
    assert result["metrics"] == [{"type": "avg@4", "value": 0.6}]
    assert "after 4 steps" in text
    assert "4 updates and 400 generated tokens: the experiment `ada_seq_balance`" in text
    assert f"```text\n{STATEMENT}\n```" in text
    rates, ends = np.stack([FIRST, LAST, LAST - FIRST], axis=1), np.array([[0.0, 0.0, -1.0], [1.0, 1.0, 1.0]])
    start, end, change = estimate_means([rates], [1.0], ends)
    for label, figure in (("after 0 updates", start), ("these weights", end), ("difference, same prompts", change)):
        assert f"| {label} | {figure.mean:.3f} [{figure.low:.3f}, {figure.high:.3f}] |" in text
    assert change.low < change.mean < change.high
    assert "on 5 prompts; in brackets 95 % intervals over prompts, none of fewer than five." in text
    assert "![Learning curves of the run](curves.png)" in text
    assert "| `sampler` | `BalanceSampler(k_pos=2, note=a\\|b 'c')` |" in text
    assert "| `rollout.sampling.max_new_tokens` | `32` |" in text
    assert "- problems.jsonl: 12 rows read, 9 kept" in text
    assert "- 9 held-out prompts" in text
    assert "```bash\npython train.py +experiment=ada_seq_balance num_steps=4\n```" in text
    assert "max_new_tokens=32))" in text


def test_too_few_held_out_prompts_have_no_interval_on_the_card(run, tmp_path):
    for file in (run / "responses" / "eval").iterdir():
        frame = pd.read_parquet(file)
        frame[frame["slot"] < 4].to_parquet(file)
    main([str(run), "--output", str(tmp_path / "exported")])
    _, text = card_of(tmp_path / "exported")
    assert "| these weights | 0.625 [-] |" in text
    assert "| difference, same prompts | 0.438 [-] |" in text


def test_rewards_outside_of_0_and_1_widen_the_ends_of_the_cards_intervals(run, tmp_path):
    for file in (run / "responses" / "eval").iterdir():
        pd.read_parquet(file).assign(reward=lambda of: 4 * of["reward"] - 2).to_parquet(file)
    main([str(run), "--output", str(tmp_path / "exported")])
    _, text = card_of(tmp_path / "exported")
    rates, ends = 4 * np.stack([LAST, LAST - FIRST], axis=1) - [2, 0], np.array([[-2.0, -4.0], [2.0, 4.0]])
    end, change = estimate_means([rates], [1.0], ends)
    for figure in (end, change):
        assert f"{figure.mean:.3f} [{figure.low:.3f}, {figure.high:.3f}]" in text


def test_an_average_has_its_own_figure_and_an_older_checkpoint_the_steps_before_it(run, tmp_path):
    main([str(run), "--average", "--output", str(tmp_path / "average")])
    _, text = card_of(tmp_path / "average")
    assert text.startswith("\n# mine-step_000004-average\n")
    assert "The weights are an exponential average" in text
    assert "| these weights | 0.750 |" in text
    assert "without an interval" in text

    main([str(run), "--checkpoint", "step_000002", "--output", str(tmp_path / "older")])
    head, text = card_of(tmp_path / "older")
    assert "after 2 steps" in text
    assert "2 updates and 200 generated tokens" in text
    assert "The run did not evaluate these weights." in text
    assert "model-index" not in head


def test_a_checkpoint_whose_successor_was_never_finished_is_exported_as_any_other(run, tmp_path):
    newest = run / "checkpoints" / "step_000004"
    newest.rename(newest.with_name("step_000004.replaced"))  # where a kill left the run
    main([str(run), "--output", str(tmp_path / "exported")])
    assert "after 4 steps" in card_of(tmp_path / "exported")[1]


def test_a_run_that_kept_little_has_a_card_that_says_so(run, tmp_path):
    for name in ("objective.txt", "curves.png", "data_report.json"):
        (run / name).unlink()
    shutil.rmtree(run / "responses")
    config = run / "config.yaml"
    config.write_text(config.read_text().partition("\n")[2])
    main([str(run), "--output", str(tmp_path / "exported")])
    _, text = card_of(tmp_path / "exported")
    assert "kept no statement" in text
    assert "without an interval" in text
    assert "kept no report of its data" in text
    assert "does not say which command" in text
    assert "| after 0 updates | 0.200 |" in text


def test_an_evaluation_of_these_weights_is_shown_and_one_of_others_is_refused(run, tmp_path, capsys, monkeypatch):
    evaluation = tmp_path / "evaluation"
    evaluation.mkdir()
    estimate = {"mean": 0.5, "low": 0.25, "high": 0.75, "num_prompts": 4}
    figures = dict.fromkeys(("avg_at_1", "pass_at_1", "response_tokens", "truncated_ratio"), estimate)
    results = {
        "name": "mine-paper", "model": "runs/mine", "left_out": {"paper": 0},
        "model_path": str((run / "checkpoints" / "step_000004" / "policy").resolve()),
        "plan": {"num_samples": 1, "positive_threshold": 0.5, "grader_failure": "as_zero", "weights": {"paper": None}},
        "sampling": {"max_new_tokens": 32, "temperature": 1.0, "top_p": 1.0, "top_k": -1},
        "sets": {"paper": {"weight": 4.0, "num_prompts": 4, "num_responses": 4, "num_failed": 0, "figures": figures}},
        "average": {"weights": {"paper": 4.0}, "figures": figures},
    }  # fmt: skip
    (evaluation / "results.json").write_text(json.dumps(results))
    main([str(run), "--evaluation", str(evaluation), "--output", str(tmp_path / "exported")])
    _, text = card_of(tmp_path / "exported")
    assert "\n### mine-paper\n" in text
    assert "0.500 [0.250, 0.750]" in text
    other = ("--checkpoint", "step_000002", "--output", tmp_path / "other")
    message = refused(capsys, run, "--evaluation", evaluation, *other)
    assert "is an evaluation of" in message
    assert "to evaluate these weights: python evaluate.py checkpoint=" in message
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", find_spec("ada_lightning.programs.export"))
    assert "weights: ada evaluate checkpoint=" in refused(capsys, run, "--evaluation", evaluation, *other)
    assert not (tmp_path / "other").exists()


def test_what_cannot_be_exported_is_refused_before_anything_is_written(run, tmp_path, capsys):
    output = tmp_path / "exported"
    asked = (run, "--output", output)

    def message(*arguments):
        found = refused(capsys, *arguments)
        assert not output.exists()
        return found

    assert "no_such is no run: there is no folder no_such" in message("no_such", "--output", output)
    assert "has no config.yaml" in message(run / "checkpoints", "--output", output)
    assert "has no checkpoint step_000009; it has step_000002, step_000004" in message(
        *asked, "--checkpoint", "step_000009"
    )
    assert "has no average of the weights" in message(*asked, "--average", "--checkpoint", "step_000002")
    with pytest.raises(SystemExit, match="2"):
        main([*map(str, asked), "--public"])

    weights = run / "checkpoints" / "step_000004" / "policy" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert "is damaged: policy/model.safetensors has" in message(*asked)
    assert "--checkpoint <name>, of step_000002" in message(*asked)
    content[-1] ^= 1
    (tmp_path / "elsewhere").write_bytes(content)
    weights.unlink()
    weights.symlink_to(tmp_path / "elsewhere")
    assert "model.safetensors is a link" in message(*asked)

    shutil.rmtree(run / "checkpoints")
    assert "has no complete checkpoint" in message(*asked)


def test_a_folder_that_exists_is_left_as_it_is(run, tmp_path, capsys):
    (tmp_path / "exported").mkdir()
    assert "exists already; choose another: --output" in refused(capsys, run, "--output", tmp_path / "exported")
    assert list((tmp_path / "exported").iterdir()) == []


def test_a_full_disk_leaves_nothing_behind(run, tmp_path, capsys, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ada_lightning.analysis.export.folder.shutil.copyfile", full)
    assert "No space left" in refused(capsys, run, "--output", tmp_path / "out" / "exported")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.fixture
def hub(monkeypatch):
    """The hub of this process is a stand-in, to which large files go by plain HTTP."""
    hub = HubStandIn()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.address)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield hub
    hub.close()


def test_what_is_pushed_is_the_folder_and_loads(run, tmp_path, capsys, hub):
    from transformers import AutoModelForCausalLM

    output = tmp_path / "exported"
    main([str(run), "--output", str(output), "--push", "mine/policy"])
    assert f"pushing to mine/policy as tester\n{output}: " in capsys.readouterr().out
    assert hub.models["mine/policy"] == {path.name: path.read_bytes() for path in output.iterdir()}
    assert hub.visibility["mine/policy"] == "private"
    assert hub.messages == ["mine-step_000004: 4 updates"]
    for name, content in hub.models["mine/policy"].items():
        (tmp_path / "downloaded").mkdir(exist_ok=True)
        (tmp_path / "downloaded" / name).write_bytes(content)
    AutoModelForCausalLM.from_pretrained(tmp_path / "downloaded")

    main([str(run), "--checkpoint", "step_000002", "--output", str(tmp_path / "b"), "--push", "mine/policy"])
    assert hub.messages[1] == "mine-step_000002: 2 updates"  # a further commit to the model that exists
    main([str(run), "--output", str(tmp_path / "c"), "--push", "mine/shown", "--public"])
    assert hub.visibility["mine/shown"] == "public"


def test_who_cannot_push_learns_it_before_anything_is_written(run, tmp_path, capsys, hub, monkeypatch):
    output = tmp_path / "exported"
    asked = (run, "--output", output, "--push")
    assert "is not a name on the hub" in refused(capsys, *asked, "a/b/c")
    assert "is not a complete name on the hub" in refused(capsys, *asked, "policy")
    monkeypatch.setenv("HF_TOKEN", "wrong")
    assert "does not know your account" in refused(capsys, *asked, "mine/policy")
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no_token"))
    assert "log in with `hf auth login`" in refused(capsys, *asked, "mine/policy")
    assert not output.exists()
    assert hub.models == {}

    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.refuses_commits = True
    message = refused(capsys, *asked, "mine/policy")
    assert "did not take mine/policy" in message
    assert f"the folder is written, upload it later: hf upload mine/policy {output}" in message
    assert (output / "README.md").exists()
