#!/usr/bin/env bash
# google-tunix 0.1.7: DAPO's penalty for long responses counts characters, not tokens, and has no bound.
#
# Expected (arXiv:2503.14476, section 3.4): lengths in tokens. Responses of up to 16,384 tokens are not punished, from there to
# 20,480 the penalty grows to 1, and no response is longer. The settings are called so, with these numbers.
# Observed: the reward function gets the decoded texts and takes len() of each. With four characters a token the
# penalty begins at 4,096 tokens and is 1 at 5,120. It goes on growing: 10,000 tokens cost 5.8, and 20,480 tokens 16.0,
# where a right answer earns 1. The penalty is on unless it is switched off.
# What to do: give overlong_buffer numbers in characters, or {"enable": False} and a reward function of your own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/tunix" google-tunix==0.1.7
# The function is compiled alone: the module's imports want JAX and a whole training environment.
cat > "$folder/check.py" <<'PYTHON'
import ast
import sys
from pathlib import Path
from typing import Any, Dict, List

folder = Path(sys.argv[1], "tunix/rl/grpo")
body = ast.parse((folder / "dapo_learner.py").read_text()).body
function = next(node for node in body if getattr(node, "name", "") == "reward_shaping")
for argument in function.args.args:
    argument.annotation = None
space = {"Any": Any, "Dict": Dict, "List": List}
exec(compile(ast.Module([function], []), "dapo_learner.py", "exec"), space)
config = next(node for node in body if getattr(node, "name", "") == "DAPOConfig")
buffer = next(ast.literal_eval(node) for node in ast.walk(config) if isinstance(node, ast.Dict))
gets_texts = "completions=rollout_output.text" in (folder / "grpo_learner.py").read_text()

print("google-tunix 0.1.7, defaults:", buffer, "| the learner gives it the decoded texts:", gets_texts)
WORDS = "the sum " * 10_240  # 20,480 words of four characters each, with their spaces
found = {}
for tokens in (4_000, 5_120, 10_000, 20_480):
    [found[tokens]] = space["reward_shaping"](None, [WORDS[: 4 * tokens]], None, overlong_buffer=buffer)
    wanted = min(0.0, (16_384 - tokens) / 4_096)
    print(f"{tokens} tokens of four characters: {found[tokens]:.2f} (expected {wanted:.2f})")
wanted = {4_000: 0.0, 5_120: -1.0, 10_000: -5.765625, 20_480: -16.0}
raise SystemExit(found != wanted or not gets_texts or not buffer["enable"])
PYTHON
"$folder/venv/bin/python" "$folder/check.py" "$folder/tunix"
