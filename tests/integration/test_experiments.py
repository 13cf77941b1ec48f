"""Every experiment that ships: a whole run with real updates, reward workers and files, the tiny model."""

from __future__ import annotations

import json

import pytest
from omegaconf import OmegaConf

from ada_lightning.methods.catalog import names
from tests.integration.conftest import ROOT, column, rows
from tests.unit.documented import unexplained

pytestmark = pytest.mark.vllm

GRADED = (  # what the random model writes has letters in various shares, and nothing of the experiment's own task
    "reward.reward.path=tests.integration.graders.share_of_letters",
    "~reward.reward.extraction",
    "~reward.reward.binary",
    "sampler.min_spread=0.2",
)
OVERLONG = (  # the experiment's own penalty, on top of the grader that the random model meets now and then
    "reward.reward._target_=ada_lightning.rewards.overlong.OverlongReward",
    "+reward.reward.max_tokens=8",
    "+reward.reward.buffer_ratio=0.5",
    "+reward.reward.reward={_target_: ada_lightning.rewards.function.FunctionReward, "
    "path: tests.integration.graders.has_few_letters}",
    "~reward.reward.path",
    "~reward.reward.arguments",
    "~reward.reward.cacheable",
)
OPTIONS = {  # what an experiment needs to show what it is for with a random model and a few prompts
    "ada_spread_partial_credit": GRADED,
    "dapo": OVERLONG,
    "gdpo": ("reward.reward.path=tests.integration.graders.with_components",),
    "gspo": ("data.num_minibatches=2", "data.epochs_per_rollout=2"),
    "jackpot": ("data.prompts_per_step=8", "data.num_minibatches=2"),
    "prompt_replay": ("curriculum.cooldown=0",),
    "spo": ("data.prompts_per_step=8", "data.num_minibatches=2"),
    "optpo": ("reward.reward.path=tests.integration.graders.counts_letters",),
    "cgrpo": (
        "reward.reward.path=tests.integration.graders.counts_letters",
        "sampler.budgets=[2,4]",
        "sampler.group_size=4",
        "sampler.num_calibration=4",
    ),
}
NUM_PROMPTS = {"jackpot": 8, "spo": 8}
PER_PROMPT = {"grpo": 4, "grpo_n16": 16, "vip": 8, "vip_dr_grpo": 8, "knapsack": 8, "coba_rl": 8}
PER_PROMPT |= {"gvm_raft": 16, "gvm_grpo": 16, "xrpo": 8, "mopps": 8, "lilo": 4, "flowrl": 4, "capo": 4, "jackpot": 4}
PER_PROMPT |= {"ada_similar": 4, "grpo_chosen": 4, "auto": 4, "rarer_class": 1}
PER_PROMPT |= {"spo": 1, "shrinkage_baseline": 4, "prompt_replay": 16, "recycling": 4, "ada_diverse": 4}
PER_PROMPT |= {"reward_distillation": 4, "representation_preference": 4, "inverse_rl": 4}
PER_PROMPT |= {"ada": 4, "ada_est_ema": 8, "ada_est_ema_implicit": 8, "ada_est_ema_paper": 8, "ada_est_value": 8}
"""Responses per prompt and step, of experiments where it is always the same."""
WITH_PICTURES = {"ada_seq_balance", "ada_spread_partial_credit", "dapo", "gdpo", "optpo"}
"""Experiments that differ in what is drawn of them: stopping, rewards that are not binary, components, refills."""
WITH_VLLM = ("ada_seq_balance", "ada_est_value", "pilot_commit", "dapo", "gvm_grpo")
"""One of each kind that meets the engine in a way of its own; the others are sampled with transformers.

Sequential blocks, whose prompts end at different times; a budget spread by estimates, from a network that reads the
policy; stages, between which all prompts meet; refills, whole waves of further prompts in one step; a sampler that
takes gradients of the policy before it draws. Adapters, drawing ahead and resuming: test_train.py; an engine in a
process of its own, several, one that dies: test_several_processes.py, test_ray_pool.py, test_faults.py. Sleeping needs
a GPU: docs/gpu_acceptance.sh.
"""
SHORT = {"ada_seq_balance", "auto", "ada"}
"""What ``make test`` trains. Of the other experiments it composes the settings and replays the tape (test_tapes.py)."""
EXPERIMENTS = [
    name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in names(ROOT / "conf", "experiment")
]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_trains_and_leaves_a_whole_run_folder(train, experiment, capfd):
    everything = experiment in WITH_PICTURES
    folder = train(
        *OPTIONS.get(experiment, ()), experiment=experiment, everything=everything, vllm=experiment in WITH_VLLM
    )
    out, _ = capfd.readouterr()
    assert "held-out avg@4:" in out
    assert ("preview: 2 prompts, " in out) == everything
    pictures = ("curves.png", "sampling.png", "samples.html", "mlflow_run_id") if everything else ()
    for name in ("config.yaml", "metrics.csv", "summary.json", "engine.log", *pictures):
        assert (folder / name).stat().st_size > 0
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "finished"
    data = OmegaConf.load(folder / "config.yaml").data
    num_updates = 2 * data.num_minibatches * data.epochs_per_rollout
    assert summary["policy_version"] == num_updates
    # Losses that average over responses are 0 where the advantages of a group are, and a minibatch may have no signal.
    assert max(column(folder, "train/grad_norm")) > 0
    assert max(column(folder, "sync/logprob_gap_max")) < 1e-3  # float32 on both sides
    assert set(column(folder, "rollout/signal_ratio")) != {0.0}
    num_sampled = column(folder, "rollout/num_sampled")
    if experiment in PER_PROMPT:
        assert num_sampled == [float(NUM_PROMPTS.get(experiment, 4)) * PER_PROMPT[experiment]] * 2
    else:
        assert max(num_sampled) >= 16
    for drawn, refilled in zip(num_sampled, column(folder, "rollout/refilled_prompts"), strict=False):
        assert drawn == 8 * (4 + refilled)  # all that was generated, whatever of it trains
    assert max(column(folder, "rollout/trained_groups"), default=4) <= 4
    assert "update: " in out  # what is really optimised
    assert column(folder, "estimator/brier")
    assert unexplained(rows(folder)[0]) == []
