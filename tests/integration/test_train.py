"""Whole runs: real engine, real reward workers, real MLflow, the tiny model."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from ada_lightning.rollout.engines.transformers_engine import TransformersEngine
from tests.integration.conftest import QUIET, ROOT, SMALL, WITHOUT_VLLM, column, logged_runs, rows

pytestmark = pytest.mark.vllm


def killed_after(whole, updates):
    """What a kill leaves of a run: its folder as of the checkpoint after so many updates."""
    parts = whole.with_name("parts")
    shutil.copytree(whole, parts, symlinks=True, ignore=shutil.ignore_patterns(".lock", "summary.json"))
    checkpoints = parts / "checkpoints"
    for path in checkpoints.glob("step_*"):
        if int(path.name.removeprefix("step_")) > updates:
            shutil.rmtree(path)
    (checkpoints / "last").unlink()
    (checkpoints / "last").symlink_to(f"step_{updates:06d}")
    with (parts / "metrics.csv").open() as file:
        reader = csv.DictReader(file)
        kept = [row for row in reader if int(row["step"]) < updates]
    with (parts / "metrics.csv").open("w") as file:
        writer = csv.DictWriter(file, reader.fieldnames)
        writer.writeheader()
        writer.writerows(kept)


@pytest.mark.long
def test_a_loss_with_parameters_leaves_and_restores_them(train, capfd):
    options = ["callbacks.checkpoint.every_n_steps=1", "loss.partition.learning_rate=1e-2"]
    whole = train(*options, "num_steps=3", experiment="flowrl", name="whole")
    killed_after(whole, 2)
    parts = train(*options, "num_steps=3", "ckpt=last", experiment="flowrl", name="parts")
    out, _ = capfd.readouterr()
    assert "tilted by exp(15 * normalised reward - log Z) per token" in out
    for name in ("rollout/reward_first_round", "rollout/generated_tokens"):
        assert column(parts, name) == column(whole, name), name
    for name in ("train/loss", "train/log_z", "train/loss_grad_norm", "train/grad_norm"):
        # float32 logits in another batch composition differ in the last digits
        assert column(parts, name) == pytest.approx(column(whole, name), rel=1e-3, abs=1e-6), name
    assert len(set(column(whole, "train/log_z"))) == 3
    states = [torch.load(f / "checkpoints/last/trainer.ckpt", weights_only=True) for f in (whole, parts)]
    assert len(states[0]["policy"]["loss"]) == 10
    torch.testing.assert_close(states[1]["policy"]["loss"], states[0]["policy"]["loss"], rtol=1e-3, atol=1e-5)


@pytest.mark.long
def test_a_run_on_a_stream_ends_where_it_does_and_a_killed_one_goes_on_at_the_next_row(train, capfd):
    """With an iterator of one's own, of whose prompts some are passed over; of files: tests/unit/data."""
    options = [
        "data=streaming", "data.source.rows={_target_: tests.integration.streams.sums, number: 59}",
        "data.source.num_first=4", "callbacks.checkpoint.every_n_steps=1", "num_steps=100",
    ]  # fmt: skip
    given = {"experiment": "grpo_chosen", "without": ["data.source.num_train"]}
    whole = train(*options, name="whole", **given)
    killed_after(whole, 2)
    parts = train(*options, "ckpt=last", name="parts", **given)
    end = "the stream sums has ended: its 59 rows had 51 usable prompts, enough for 3 steps. 3 are left over"
    assert capfd.readouterr().out.count(end) == 2
    for name in ("rollout/num_sampled", "rollout/reward_first_round", "rollout/generated_tokens"):
        assert column(parts, name) == column(whole, name), name
    # float32 logits in another batch composition differ in the last digits
    assert column(parts, "train/grad_norm") == pytest.approx(column(whole, "train/grad_norm"), rel=1e-3, abs=1e-6)
    ends = [json.loads((folder / "summary.json").read_text()) for folder in (whole, parts)]
    assert [(end["status"], end["steps"]) for end in ends] == [("finished", 3)] * 2
    reports = [json.loads((folder / "data_report.json").read_text()) for folder in (whole, parts)]
    assert reports[0] == reports[1]
    assert reports[0]["reading"][0]["dropped"] == {"not chosen by the curriculum": 36}


@pytest.mark.long
def test_token_masks_say_what_they_keep(train, capfd):
    options = ["token_masks=[capo,jackpot]", "token_masks.capo.max_shift=1e-4", "data.num_minibatches=2"]
    folder = train(*options, experiment="grpo", vllm=True)
    out, _ = capfd.readouterr()
    assert "token_masks: capo leaves out" in out
    assert "token_masks: jackpot keeps" in out
    capo, jackpot = column(folder, "train/capo_kept"), column(folder, "train/jackpot_kept")
    assert capo[0] == 1  # no step to model yet
    assert jackpot[0] > 0.99  # on-policy, float32 on both sides
    assert 0 <= min(capo[1:]) < 1
    assert 0 < min(jackpot[1:]) < jackpot[0]


@pytest.mark.long
def test_without_labels_training_speaks_of_agreement_and_evaluation_of_the_truth(train):
    """A reward of 0 for everything: agreement is learned from all the same, and the held-out figure stays 0."""
    grader = "reward.reward.path=tests.integration.graders.counts_letters_of_wrong_answers"
    folder = train(grader, experiment="optpo")
    assert min(column(folder, "rollout/reward_pool")) > 0
    assert min(column(folder, "rollout/signal_ratio")) > 0
    assert set(column(folder, "eval/avg_at_4")) == {0.0}


@pytest.mark.long
def test_drawing_ahead_changes_nothing_but_the_waste(train):
    """The same responses, whatever else runs beside them; of the real engine: test_vllm_engine.py."""
    options = ["sampler.k_pos=4", "sampler.k_neg=4", "rollout.schedule.max_waste_ratio=10"]
    plain = train(*options, "rollout.schedule.fill_to=0", name="plain")
    ahead = train(*options, "rollout.schedule.fill_to=32", "rollout.schedule.min_chance=0.1", name="ahead")
    for name in ("rollout/num_sampled", "rollout/reward_pool", "rollout/generated_tokens"):
        assert column(ahead, name) == column(plain, name), name
    assert sum(column(plain, "rollout/tokens_wasted")) == 0
    assert sum(column(ahead, "rollout/tokens_wasted")) > 0


def test_the_policy_changes_and_loads_in_transformers_and_in_the_engine(train, tiny_path, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from tests.integration.test_vllm_engine import largest_gap, open_engine

    policy_folder = train() / "checkpoints" / "last" / "policy"
    trained = AutoModelForCausalLM.from_pretrained(policy_folder, dtype=torch.float32)
    initial = AutoModelForCausalLM.from_pretrained(tiny_path, dtype=torch.float32)
    assert any(not torch.equal(a, b) for a, b in zip(trained.parameters(), initial.parameters(), strict=True))
    assert AutoTokenizer.from_pretrained(policy_folder).chat_template
    engine = open_engine(policy_folder, tmp_path)
    try:
        assert largest_gap(engine, trained) < 1e-3
        assert largest_gap(engine, initial) > 1e-3
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("experiment", "choices"),
    [
        ("ada_seq_balance", ["data.num_minibatches=2", "sampler=balance_posterior", "sampler.budget_per_step=40"]),
        pytest.param("ada_est_value", ["estimator.warmup_steps=1"], marks=pytest.mark.long),
        pytest.param("ada_similar", ["data.num_minibatches=2"], marks=pytest.mark.long),
        pytest.param("vip", ["estimator.noise=1"], marks=pytest.mark.long),
        pytest.param("coba_rl", ["data.source.num_train=6", "sampler.responses_per_prompt=4"], marks=pytest.mark.long),
    ],
)
def test_a_resumed_run_continues_like_one_that_never_stopped(train, experiment, choices):
    """Optimiser, seeds, history, price of a signal, value network; killed at other moments: test_faults.py.

    A curriculum and its place in the data: tests/unit/methods/curriculum/test_resume.py.
    """
    options = [*choices, "callbacks.checkpoint.every_n_steps=1"]
    vllm = experiment == "ada_seq_balance"
    updates_per_step = 2 if "data.num_minibatches=2" in choices else 1
    whole = train(*options, "num_steps=3", experiment=experiment, name="whole", vllm=vllm)
    killed_after(whole, 2 * updates_per_step)
    parts = train(*options, "num_steps=3", "ckpt=last", experiment=experiment, name="parts", vllm=vllm)
    for name in ("rollout/num_sampled", "rollout/reward_first_round", "rollout/generated_tokens"):
        assert column(parts, name) == column(whole, name), name
    for name in ("train/loss", "train/grad_norm"):
        # float32 logits in another batch composition differ in the last digits
        assert column(parts, name) == pytest.approx(column(whole, name), rel=1e-3, abs=1e-6), name
    assert [row["step"] for row in rows(parts)] == [row["step"] for row in rows(whole)]
    ends = [json.loads((folder / "summary.json").read_text()) for folder in (whole, parts)]
    assert ends[0]["heldout"]["eval/avg_at_4"] == ends[1]["heldout"]["eval/avg_at_4"]
    states = [torch.load(f / "checkpoints/last/trainer.ckpt", weights_only=True) for f in (whole, parts)]
    assert states[0]["rollout_checkpoint"] == states[1]["rollout_checkpoint"]
    assert states[0]["rollout_checkpoint"]["global_step"] == 3 * updates_per_step


def test_long_responses_that_are_cut_by_chance_cost_their_tokens_and_no_more(train, capfd):
    """The random model ends hardly any response by itself, so most reach the cut."""
    options = ["sampler=cut", "sampler.group_size=4", "sampler.num_tokens=3", "sampler.survival=0.5", "num_steps=2"]
    folder = train(*options, "rollout.sampling.max_new_tokens=12", experiment="ada", vllm=True)
    assert "a response goes on after 3 tokens with a probability of 0.5 or less" in capfd.readouterr().out
    for ratio, tokens, drawn in zip(
        *(column(folder, f"rollout/{name}") for name in ("cut_ratio", "response_tokens", "num_sampled")), strict=True
    ):
        assert drawn == 16
        assert 0.2 < ratio < 0.8
        assert tokens <= 3 * ratio + 12 * (1 - ratio)


@pytest.mark.long
def test_adapters_train_and_a_resumed_run_continues_with_them(train, tiny_path):
    """The engine serves merged weights; peft loads the checkpoint's adapters; KL needs no second model."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    options = ["parameters=lora", "parameters.rank=4", "loss.kl_coef=0.01", "callbacks.checkpoint.every_n_steps=1"]
    whole = train(*options, "num_steps=3", name="whole", vllm=True)
    killed_after(whole, 2)
    parts = train(*options, "num_steps=3", "ckpt=last", name="parts", vllm=True)
    assert max(column(whole, "sync/logprob_gap_max")) < 1e-3
    assert max(column(whole, "train/kl")) > 0  # it has moved from the initial model
    assert column(parts, "rollout/generated_tokens") == column(whole, "rollout/generated_tokens")
    assert column(parts, "train/loss") == pytest.approx(column(whole, "train/loss"), rel=1e-3, abs=1e-6)
    last = parts / "checkpoints" / "last"
    merged = AutoModelForCausalLM.from_pretrained(last / "policy", dtype=torch.float32)
    initial = AutoModelForCausalLM.from_pretrained(tiny_path, dtype=torch.float32)
    tokens = torch.tensor([[5, 9, 17, 3]])
    with torch.no_grad():
        start = initial(tokens).logits
        beside = PeftModel.from_pretrained(initial, last / "adapter")(tokens).logits
        torch.testing.assert_close(merged(tokens).logits, beside, rtol=1e-5, atol=1e-5)
        assert not torch.allclose(beside, start, atol=1e-6)


@contextmanager
def stopped_between(monkeypatch, version):
    """Ctrl-C in the update that follows so many."""
    from ada_lightning.training.policy import PolicyModule

    step = PolicyModule.training_step

    def interrupted(self, batch, batch_idx):
        if self.policy_version == version:
            raise KeyboardInterrupt
        return step(self, batch, batch_idx)

    with monkeypatch.context() as patched:
        patched.setattr(PolicyModule, "training_step", interrupted)
        yield


@pytest.mark.long
def test_a_run_stopped_between_two_minibatches_continues(train, monkeypatch):
    """Ctrl-C in the second of two updates: the rest of that rollout is drawn anew."""
    options = ["data.num_minibatches=2", "num_steps=2"]
    with stopped_between(monkeypatch, 1), pytest.raises(SystemExit):
        train(*options)
    summary = json.loads((train(*options, "ckpt=last") / "summary.json").read_text())
    assert (summary["status"], summary["policy_version"], summary["steps"]) == ("finished", 4, 2)


def test_a_reproducible_run_stopped_between_two_minibatches_keeps_its_last_whole_step(train, monkeypatch, tmp_path):
    options = ["data.num_minibatches=2", "num_steps=3", "reproducible=true", "callbacks.checkpoint.every_n_steps=1"]
    with stopped_between(monkeypatch, 3), pytest.raises(SystemExit):
        train(*options)
    assert (tmp_path / "run" / "checkpoints" / "last").resolve().name == "step_000002"


@pytest.mark.long
def test_a_resumed_run_uses_the_new_learning_rate(train):
    train("num_steps=1")
    folder = train("num_steps=2", "optimizer.lr=5e-4", "ckpt=last")
    assert column(folder, "train/lr") == pytest.approx([1e-3, 5e-4])


@pytest.mark.long
def test_a_budget_ends_a_run_that_is_evaluated_at_equal_numbers_of_tokens_and_the_learning_rate_follows_it(train):
    """A random model's responses are truncated mostly: 16 a step, at most 8 tokens each."""
    options = ["callbacks.evaluation.every_n_steps=0", "callbacks.evaluation.every_n_tokens=200", "num_steps=50"]
    options += ["optimizer/schedule=linear", "callbacks.budget.max_generated_tokens=700"]
    folder = train(*options, experiment="grpo")
    tokens = np.cumsum(column(folder, "rollout/generated_tokens"))
    assert tokens[-2] < 700 <= tokens[-1]
    before = np.array([0.0, *tokens[:-1]])
    assert column(folder, "train/lr") == pytest.approx(1e-3 * (1 - before / 700))
    due, since = [], 0.0
    for step, spent in enumerate(tokens[:-1], start=1):
        if spent - since >= 200:
            due, since = [*due, step], spent
    evaluated = [int(row["step"]) for row in rows(folder) if row["eval/avg_at_4"]]
    assert evaluated == [0, *due, len(tokens)]
    assert len(due) >= 2
    assert json.loads((folder / "summary.json").read_text())["status"] == "finished"


@pytest.mark.long
def test_a_broken_engine_is_replaced_after_its_first_checkpoint_is_gone(train, monkeypatch):
    """The restarted engine must not want the folder that the run resumed from."""
    train("num_steps=1")
    poll, polls = TransformersEngine.poll, []

    def breaks_late(self):
        polls.append(1)
        if len(polls) == 40:
            raise RuntimeError("worker died")
        return poll(self)

    monkeypatch.setattr(TransformersEngine, "poll", breaks_late)
    with pytest.warns(RuntimeWarning, match="worker died"):
        folder = train("num_steps=4", "callbacks.checkpoint.every_n_steps=1", "ckpt=last")
    assert len(polls) > 40
    assert max(column(folder, "rollout/engine_restarts")) == 1


@pytest.mark.long
def test_kl_entropy_and_another_reduction_train(train):
    folder = train(
        "loss.kl_coef=0.1",
        "loss.entropy_coef=0.01",
        "loss.reduction._target_=ada_lightning.training.losses.TokenMeanReduction",
        "~loss.reduction.token_scale",
        "data.share_prompts=false",
    )
    assert column(folder, "train/kl")[1] > 0
    assert min(column(folder, "train/entropy")) > 1


def command(*overrides):
    return ["train.py", "+experiment=ada_seq_balance", *SMALL, *overrides]


@pytest.mark.long
def test_a_sweep_makes_child_runs_under_one_parent(programs, store, tmp_path):
    options = ["sampler.k_pos=1,2", "num_steps=1", f"run_dir={tmp_path}/sweep", f"logger.mlflow.tracking_uri={store}"]
    done = programs.run(*command(*options, *WITHOUT_VLLM, *QUIET[1:], "~callbacks.preview"), "-m")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sweep/0/summary.json").exists()
    assert (tmp_path / "sweep/1/summary.json").exists()
    runs = logged_runs(store)
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert parent.info.run_name == "sweep"
    assert sorted(run.data.params["sampler.k_pos"] for run in children) == ["1", "2"]


@pytest.mark.long
def test_preview_alone_trains_nothing_and_leaves_no_run(programs, tmp_path):
    result = programs.run(*command("preview=true", f"run_dir={tmp_path}/run"))
    assert result.returncode == 0, result.stderr
    assert "preview: 2 prompts, " in result.stdout
    assert "GRPO n=4" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_explained_before_torch_or_a_model_is_loaded(tmp_path):
    """Runs the real entry point; ``-X importtime`` would show the same: vllm is never imported."""
    options = ["+experiment=ada_seq_balance", f"run_dir={tmp_path}/run", "sampler=balanec"]
    done = subprocess.run([sys.executable, "train.py", *options], cwd=ROOT, capture_output=True, text=True, check=False)
    assert_explained(done, "balanec", "balance")  # what a key may be depends on the options, so these alone


def test_all_bad_values_are_explained_at_once(programs, tmp_path):
    wrong = {
        "data=jsonl data.source.path=missing.jsonl": "missing.jsonl",
        "rollout.max_model_tokens=40": "max_model_tokens = 40",
        "sampler.k_pos=20 sampler.k_neg=20": "k_pos + k_neg = 40",
        "data.prompts_per_step=0": "prompts_per_step",
        "model=pretrained model.path=/no/such/model": "/no/such/model",
        "ckpt=step_000010": "ckpt = step_000010",
        "num_steps=0": "num_steps must be at least 1; got 0",
        "optimizer.lr=-1": "Invalid learning rate",
        "+policy.model_path=x": "policy.model_path",
    }
    options = ["+experiment=ada_seq_balance", f"run_dir={tmp_path}/run", *" ".join(wrong).split()]
    assert_explained(programs.run("train.py", *options), *wrong.values())


def assert_explained(done, *messages):
    assert done.returncode != 0
    for message in messages:
        assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
