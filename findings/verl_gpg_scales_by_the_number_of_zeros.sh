#!/usr/bin/env bash
# verl 0.9.1: with adv_estimator=gpg rewards of 0 and 1 train four times as hard as rewards of 1 and 2.
#
# Expected: an advantage is the reward less its group's mean, so a constant added to all rewards changes nothing. The
# factor alpha is the caller's, or makes up for groups in which all rewards are equal.
# Observed: alpha is overwritten by the batch's size over the number of rewards that are not 0. Of eight responses, two
# right, rewards of 0 and 1 give alpha 4, those of 1 and 2 give 1. Those of -1 and 1 give half of the first, though they
# lie twice as far apart. The rarer right answers are, the larger is each step: 16 times with one right of 16. A group
# that is all wrong makes the others' advantages larger, one that is all right smaller. alpha=100 is ignored.
# What to do: give rewards of which none is 0, such as 1 and 2: alpha is 1 then.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile numpy==2.3.5 torch==2.13.0
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/verl" verl==0.9.1
# The function is compiled alone: the module's imports want a whole training environment.
cat > "$folder/check.py" <<'PYTHON'
import ast
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

NAME = "compute_gpg_outcome_advantage"
text = Path(sys.argv[1], "verl/trainer/ppo/core_algos.py").read_text()
function = next(node for node in ast.parse(text).body if getattr(node, "name", "") == NAME)
function.decorator_list = []
space = {"torch": torch, "np": np, "defaultdict": defaultdict}
exec(compile(ast.Module([function], []), "core_algos.py", "exec"), space)


def advantages(rewards, **settings):
    """Of responses of one token, in groups of four."""
    groups = np.arange(len(rewards)) // 4
    found = space[NAME](torch.tensor(rewards)[:, None], torch.ones(len(rewards), 1), groups, **settings)
    return found[0][:, 0].tolist()


right = np.array([1.0, 0, 0, 0, 1, 0, 0, 0])  # two groups of four
found = {
    "0 and 1": advantages(right.tolist()),
    "1 and 2": advantages((right + 1).tolist()),
    "-1 and 1": advantages((2 * right - 1).tolist()),
    "0 and 1, alpha=100": advantages(right.tolist(), alpha=100.0),
    "0 and 1, and a group all wrong": advantages([*right.tolist(), 0.0, 0.0, 0.0, 0.0]),
    "0 and 1, and a group all right": advantages([*right.tolist(), 1.0, 1.0, 1.0, 1.0]),
}
print("verl 0.9.1, torch", torch.__version__, "(expected: 0.75 for a right response with 0 and 1, and with 1 and 2)")
for rewards, values in found.items():
    print(f"rewards {rewards}: right {values[0]}, wrong {values[1]}")
raise SystemExit([values[0] for values in found.values()] != [3.0, 0.75, 1.5, 3.0, 4.5, 1.5])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/verl"
