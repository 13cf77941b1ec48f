#!/usr/bin/env bash
# ms-swift 4.6.0: `--dynamic_sample` draws a last batch, pays for it, and throws it away unread.
#
# Expected: with `--max_resample_times 1` one further batch is drawn, and its groups with a signal take the places of
# those without.
# Observed: the loop looks at a batch before it draws the next, and ends once the count is reached. So the last batch is
# generated and scored, and nobody looks at it. With 1 nothing is ever replaced: the first batch trains as it was,
# equal groups included, and every such step costs two batches. With N, N - 1 batches can help.
# What to do: set max_resample_times one higher than the number of batches that you mean.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$folder/swift" ms-swift==4.6.0
# The method is compiled alone: the package's imports want a whole training environment. Arrays are numpy's.
cat > "$folder/try.py" <<'PYTHON'
import ast
import sys
from types import SimpleNamespace
from unittest import mock

import numpy as np

text = open(sys.argv[1] + "/swift/rlhf_trainers/grpo_trainer.py").read()
trainer = next(node for node in ast.parse(text).body if getattr(node, "name", "") == "GRPOTrainer")
method = next(node for node in trainer.body if getattr(node, "name", "") == "_dynamic_sampling")
method.decorator_list = []
future = ast.parse("from __future__ import annotations").body
space = {"gather_object": list, "torch": SimpleNamespace(cat=np.concatenate), "logger": mock.MagicMock()}
exec(compile(ast.Module([*future, method], []), "grpo_trainer.py", "exec"), space)

EQUAL, MIXED = np.array([1.0, 1.0, 1.0, 1.0]), np.array([1.0, 0.0, 1.0, 0.0])  # two groups of two


def run(max_resample_times, later):
    drawn = []

    def draw(inputs):
        drawn.append(inputs)
        return ["new"] * 4

    me = SimpleNamespace(
        max_resample_times=max_resample_times,
        args=SimpleNamespace(generation_batch_size=4),
        accelerator=SimpleNamespace(process_index=0),
        template=SimpleNamespace(truncation_strategy="left"),
        dynamic_resample_iterator=iter(later),
        compute_std=lambda samples, rewards: np.repeat(rewards.reshape(-1, 2).std(axis=1), 2),
        to_samples=lambda inputs: inputs,
        _generate_completions=draw,
        _compute_rewards_per_func=lambda samples: MIXED if drawn[-1] == "mixed" else EQUAL,
    )
    samples, _ = space["_dynamic_sampling"](me, ["old"] * 4, EQUAL)
    return samples[0], len(drawn)


print("max_resample_times=1, the next batch has a signal:", run(1, ["mixed"]))
print("max_resample_times=2, the next batch has a signal:", run(2, ["mixed", "mixed"]))
print("max_resample_times=3, the third batch has a signal:", run(3, ["equal", "equal", "mixed"]))
assert run(1, ["mixed"]) == ("old", 1)
assert run(2, ["mixed", "mixed"]) == ("new", 1)
assert run(3, ["equal", "equal", "mixed"]) == ("old", 3)
PYTHON
"$folder/venv/bin/python" "$folder/try.py" "$folder/swift"
