"""Runs whose responses are episodes: real workers, real updates, the tiny model."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import torch

from ada_lightning.callbacks.response_log import read_responses
from tests.integration.conftest import QUIET, ROOT, SMALL, column

pytestmark = pytest.mark.vllm

HERE = "tests.unit.rollout.episodes.environments"
EXACT = ("reproducible=true", "rollout.max_model_tokens=768", "rollout.engine.max_num_seqs=16")


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "checkpoints" / "last" / "policy" / "model.safetensors")


def assert_same_weights(one, other):
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.long
def test_an_environment_of_one_turn_trains_bit_by_bit_as_without_it(train):
    """All responses of a step in one batch of the engine: what it computes depends on what runs beside what."""
    single = train(*EXACT, experiment="grpo", name="single")
    own = ("environment=custom", f"environment.path={HERE}.OneTurn")
    episodes = train(*EXACT, *own, experiment="grpo", name="episodes")
    assert_same_weights(single, episodes)
    for name in (
        "train/loss",
        "train/grad_norm",
        "rollout/num_sampled",
        "rollout/generated_tokens",
        "rollout/reward_pool",
    ):
        assert column(episodes, name) == column(single, name), name
    assert set(column(episodes, "env/turns")) == {1.0}
    assert set(column(episodes, "env/environment_tokens")) == {0.0}


@pytest.fixture
def ends_often(monkeypatch):
    """Half of the bytes end a turn: the tiny model draws one end of a turn among 259 tokens."""
    monkeypatch.setattr(
        "ada_lightning.training.models.served._eos_token_ids", lambda path, tokenizer: [2, *range(131, 259)]
    )


@pytest.mark.long
def test_a_run_killed_with_open_episodes_goes_on_bit_by_bit(train, ends_often, monkeypatch):
    from ada_lightning.rollout.episodes.open_episodes import OpenEpisodes

    options = [
        *EXACT, "environment=custom", f"environment.path={HERE}.Noisy", "rollout.sampling.max_new_tokens=16",
        "callbacks.checkpoint.every_n_steps=1", "num_steps=3", "~callbacks.preview",
    ]  # fmt: skip
    whole = train(*options, name="whole")
    # What the engine drew turn by turn is what the trainer computes in one pass, through all the environment said.
    assert max(column(whole, "sync/logprob_gap_max")) < 1e-3
    assert max(column(whole, "env/turns")) > 2
    assert min(column(whole, "env/environment_tokens")) > 0.5
    assert min(column(whole, "rollout/num_trained")) > 0
    receive = OpenEpisodes.receive

    def interrupted(self, *arguments):
        for episode in self._open.values():
            if episode.step.policy_version == 2 and episode.step.stage == "train" and len(episode.turns) == 2:
                raise KeyboardInterrupt
        return receive(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(OpenEpisodes, "receive", interrupted)
        with pytest.raises(SystemExit):
            train(*options, name="parts")
    parts = train(*options, "ckpt=last", name="parts")
    assert json.loads((parts / "summary.json").read_text())["status"] == "finished"
    assert_same_weights(whole, parts)
    for name in ("train/loss", "rollout/num_sampled", "rollout/generated_tokens", "env/turns", "env/call_errors"):
        assert column(parts, name) == column(whole, name), name


PAGE = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_the_page_is_followed_from_the_class_to_a_trained_run_and_its_evaluation(programs, store, tmp_path):
    """Its class and its command, literally but for the tiny model; vLLM draws the turns."""
    blocks = BLOCK.findall(PAGE)
    (code,) = [text for language, text in blocks if language == "python"]
    (tmp_path / "my_game.py").write_text(code)
    (line,) = [text for language, text in blocks if language == "bash" and "my_game" in text]
    program, *arguments = shlex.split(line)[1:]
    tracking = f"logger.mlflow.tracking_uri={store}"
    small = [option for option in SMALL if not option.startswith(("reward", "num_steps"))]
    options = [*small, *QUIET[1:3], f"run_dir={tmp_path}/run", tracking]
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    result = programs.run(program, *arguments, *options, cwd=tmp_path, environment=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    responses = read_responses(tmp_path / "run", "train")
    assert set(responses.ended_by) <= {"done", "length", "turns"}
    assert (responses.num_tokens <= responses.num_computed).all()
    assert all(
        json.loads(turns)[-1]["text"] == text for turns, text in zip(responses.turns, responses.text, strict=True)
    )
    assert "<span class=model>" in (tmp_path / "run" / "samples.html").read_text()
    assert column(tmp_path / "run", "env/turns")
    found = programs.run(
        "evaluate.py", f"checkpoint={tmp_path}/run", "rollout.environment.path=my_game.Game", "mlflow=null",
        f"run_dir={tmp_path}/evaluation", "eval.num_samples=2", cwd=tmp_path, environment=environment,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    assert json.loads((tmp_path / "evaluation" / "results.json").read_text())["sets"]["heldout"]["num_responses"] == 16
