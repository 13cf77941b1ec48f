#!/usr/bin/env bash
# openrlhf 0.11.2: --reward.stop_properly_penalty_coef makes a wrong response that is cut off worth more, not less.
#
# Expected: a penalty on responses that are cut at the limit of length never raises a reward. With rewards of 1 and -1,
# as graders of the DAPO kind give them, a wrong response that is cut off is worth -1 or less.
# Observed: a coefficient from 0 to 1 multiplies the reward. -1 becomes -0.5 with 0.5, and 0 with 0: in a group of wrong
# responses the one that ran into the limit is the best, and trains as such. What the overlong penalty took from it
# before is halved, too. The option's help says "penalty"; nothing warns of rewards below 0.
# What to do: with negative rewards give a negative coefficient, which replaces the reward: -1, or lower.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --target "$folder/openrlhf" openrlhf==0.11.2
# The functions are compiled alone: the package's imports want a whole training environment. Arrays are numpy's.
cat > "$folder/check.py" <<'PYTHON'
import ast
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

text = Path(sys.argv[1], "openrlhf/trainer/ppo_utils/length_penalty.py").read_text()
functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
space = {"List": list}
exec(compile(ast.Module(functions, []), "length_penalty.py", "exec"), space)


def rewards(coefficient, overlong=False):
    """Of a right response, a wrong one, and a wrong one that was cut at 100 tokens."""
    one = SimpleNamespace(
        rewards=np.array([1.0, -1.0, -1.0]),
        truncated=np.array([False, False, True]),
        response_length=np.array([50, 50, 100]),
    )
    if overlong:
        space["apply_overlong_penalty"]([one], max_new_tokens=100, overlong_buffer_len=20)
    space["apply_stop_properly_penalty"]([one], coefficient)
    return one.rewards.tolist()


print("openrlhf 0.11.2 (expected: the last of three is never worth more than the second)")
found = {}
for coefficient in (1.0, 0.5, 0.0, -1.0):
    found[coefficient] = rewards(coefficient), rewards(coefficient, overlong=True)
    print(f"coefficient {coefficient:4}: right, wrong, wrong and cut off:", *found[coefficient][0])
    print("                  with the overlong penalty before it:", *found[coefficient][1])
assert found[1.0] == ([1.0, -1.0, -1.0], [1.0, -1.0, -2.0])
assert found[0.5] == ([1.0, -1.0, -0.5], [1.0, -1.0, -1.0])
assert found[0.0] == ([1.0, -1.0, 0.0], [1.0, -1.0, 0.0])
assert found[-1.0] == ([1.0, -1.0, -1.0], [1.0, -1.0, -1.0])
PYTHON
"$folder/venv/bin/python" "$folder/check.py" "$folder/openrlhf"
