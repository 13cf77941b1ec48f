#!/usr/bin/env bash
# Trinity-RFT 0.6.0: rank_penalty does not tell right responses apart, and trains groups that are all right.
#
# Expected (arXiv:2506.02355, which its docstring names): of the right responses, probable ones earn less than
# improbable ones. A group of which all are right then prefers the improbable ones, with a mean advantage of 0.
# Observed: penalised rewards make the mean and the deviation; the advantage is the reward as it was, less that mean. All
# right responses get the same advantage. It grows with the penalty: 0.87 without, 1.19 where the right ones are
# probable, 0.92 where they are not, so the probable ones gain. Four right responses of four get 1.16 each, where they
# got 0. std_threshold=0, which drops such groups, keeps them.
# What to do: leave rank_penalty out, or put it into the rewards.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile numpy==2.3.5 torch==2.13.0
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/trinity" trinity-rft==0.6.0
# The class is compiled alone: the module's imports want a whole training environment.
cat > "$folder/check.py" <<'PYTHON'
import ast
import sys
import typing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

NAME = "GRPOGroupedAdvantage"
text = Path(sys.argv[1], "trinity/algorithm/advantage_fn/grpo_advantage.py").read_text()
found = next(node for node in ast.parse(text).body if getattr(node, "name", "") == NAME)
space = vars(typing) | {"torch": torch, "GroupAdvantage": object, "Experience": object}
exec(compile(ast.Module([found], []), "grpo_advantage.py", "exec"), space)


def advantages(rewards, **settings):
    """Of four responses of one token; the first is the most probable."""
    told = zip(rewards, [-0.1, -0.5, -1.0, -2.0])
    group = [
        SimpleNamespace(reward=reward, logprobs=torch.tensor([logprob]), action_mask=torch.ones(1))
        for reward, logprob in told
    ]
    space[NAME](**settings).calculate_group_advantage("a", group)
    return [round(response.advantages.item(), 2) for response in group]


print("trinity-rft 0.6.0, torch", torch.__version__, "(the first of four responses is the most probable)")
shown = []
for rewards in ([1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]):
    shown.append([advantages(rewards), advantages(rewards, rank_penalty=0.25)])
    print("rewards", rewards, "without a penalty:", *shown[-1][0], "| with 0.25:", *shown[-1][1])
filtered = advantages([1.0, 1.0, 1.0, 1.0], rank_penalty=0.25, std_threshold=0.0)
print("all right, std_threshold=0:", filtered or "dropped")
expected = [
    [[0.87, 0.87, -0.87, -0.87], [1.19, 1.19, -0.87, -0.87]],
    [[-0.87, -0.87, 0.87, 0.87], [-0.87, -0.87, 0.92, 0.92]],
    [[0.0] * 4, [1.16] * 4],
]
raise SystemExit(not np.allclose(shown, expected, atol=0.01) or filtered != [1.16] * 4)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/trinity"
