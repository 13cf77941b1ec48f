"""A policy that samples some steps behind the one that trains: whole runs of a real, tiny model."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file

from tests.integration.conftest import column

LAG = ("rollout.max_staleness=1", "loss.anchor=behaviour", "loss.importance_cap=0", "reproducible=true")
COST = ("time/", "unix_ms", "eval")


@pytest.mark.long
def test_a_lagging_run_says_how_far_it_is_behind_and_goes_on_as_if_it_had_not_been_stopped(train, capsys):
    whole = train(*LAG, "num_steps=4", "callbacks.evaluation.every_n_steps=2", name="whole")
    assert "rollout.max_staleness = 1: the policy of 1 step before samples" in capsys.readouterr().out
    assert column(whole, "staleness/versions") == [0, 1, 1, 1]
    # The engine has the version that it should, whatever an evaluation loaded between; what it sampled has drifted.
    assert max(column(whole, "sync/canary_gap")) < 1e-4
    first, *later = column(whole, "staleness/kl")
    assert first < 1e-8
    assert min(later) > 100 * first
    assert all(value < 1 - 1e-9 for value in column(whole, "staleness/ess")[1:])
    train(*LAG, "num_steps=2", name="parts")
    parts = train(*LAG, "num_steps=4", "ckpt=last", name="parts")
    for name in ("train/loss", "train/grad_norm", "sync/logprob_gap", "staleness/kl", "rollout/num_sampled"):
        assert column(parts, name) == column(whole, name)
    weights = [load_file(folder / "checkpoints/last/policy/model.safetensors") for folder in (whole, parts)]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])
    assert json.loads((parts / "summary.json").read_text())["status"] == "finished"
