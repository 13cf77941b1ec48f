"""What needs the whole rollout before it computes anything is refused before a model loads, with a way out."""

from __future__ import annotations

import pytest

from tests.unit.config.composing import problems, said

STREAMED = "rollout=vllm_process rollout.stream_gradients=true"


@pytest.mark.parametrize(
    "command",
    [
        STREAMED,
        "rollout=ray rollout.stream_gradients=true",
        f"{STREAMED} +experiment=grpo",
        f"{STREAMED} +experiment=ada",
        f"{STREAMED} rollout.max_staleness=1 loss.anchor=behaviour loss.importance_cap=0",
        f"{STREAMED} parameters=lora",
    ],
)
def test_what_looks_at_one_prompt_at_a_time_may_be_streamed(command):
    assert said(command) == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{STREAMED} data.num_minibatches=2", "data.num_minibatches=2 data.epochs_per_rollout=1 has several updates"),
        (f"{STREAMED} data.epochs_per_rollout=3", "use rollout.stream_gradients=false or data.num_minibatches=1"),
        (f"{STREAMED} advantage=batch_whitened", "compares the groups of a whole rollout"),
        (f"{STREAMED} +experiment=cppo_batch", "compares all pools of a step"),
        (f"{STREAMED} +experiment=dapo", "use rollout.stream_gradients=false or refill=none"),
        (f"{STREAMED} +experiment=gvm_grpo", "reads the policy while it computes gradients"),
        (f"{STREAMED} token_masks=capo", "leave token_masks."),
        (f"{STREAMED} +experiment=dpo", "asks the policy about responses"),
        (f"{STREAMED} loss._target_=ada_lightning.training.losses.PolicyLoss", "is_scaled_by_reduction"),
        (f"{STREAMED} +rollout.engine.sleep_level=1", "or rollout.engine.sleep_level=0"),
        (f"{STREAMED} trainer.devices=2", "trainer.devices x trainer.num_nodes = 2"),
    ],
)
def test_what_needs_the_whole_rollout_is_refused(command, message):
    assert any("rollout.stream_gradients" in each and message in each for each in said(command)), said(command)


def test_an_engine_in_the_trainers_process_is_refused():
    (message,) = problems("rollout.stream_gradients=true")
    assert "use rollout=vllm_process, or rollout.stream_gradients=false" in message
