"""An average of the weights in a whole run: evaluated, saved, resumed, and without any influence on training."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from tests.integration.conftest import column

pytestmark = pytest.mark.vllm


def weights(folder, step, kind):
    return load_file(folder / "checkpoints" / f"step_{step:06d}" / kind / "model.safetensors")


@pytest.mark.long
def test_the_average_is_evaluated_and_saved_and_training_does_not_see_it(train):
    each_step = (
        "callbacks.checkpoint.every_n_steps=1",
        "callbacks.checkpoint.keep_last=9",
        "callbacks.evaluation.every_n_steps=1",
    )
    plain = train("num_steps=3", *each_step, experiment="grpo", name="plain")
    folder = train("num_steps=3", *each_step, "callbacks.weight_average.decay=0.5", experiment="grpo", name="averaged")
    parts = {step: weights(folder, step, "policy") for step in (1, 2, 3)}
    for name, average in weights(folder, 3, "policy_average").items():
        expected = (parts[1][name] + 2 * parts[2][name] + 4 * parts[3][name]) / 7
        torch.testing.assert_close(average, expected)  # float32 sums in another order
        assert torch.equal(parts[3][name], weights(plain, 3, "policy")[name])
    assert column(folder, "eval/avg_at_4") == column(plain, "eval/avg_at_4")
    assert len(column(folder, "eval_average/avg_at_4")) == 3  # not before the first update
    assert not column(plain, "eval_average/avg_at_4")

    resumed = train("num_steps=2", *each_step, "callbacks.weight_average.decay=0.5", experiment="grpo", name="resumed")
    resumed = train(
        "num_steps=3", "ckpt=last", *each_step, "callbacks.weight_average.decay=0.5", experiment="grpo", name="resumed"
    )
    for name, average in weights(resumed, 3, "policy_average").items():
        assert torch.equal(average, weights(folder, 3, "policy_average")[name])
