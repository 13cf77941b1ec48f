#!/usr/bin/env bash
# google-tunix 0.1.7: its rewards for numbers drop the minus, and one gives every response 0 where the answer has a comma.
#
# Expected: <answer>-5</answer> is right where the answer is -5, and <answer>5</answer> is wrong.
# Observed: simple_math's check_answer and gsm8k's check_numbers look for digits and full stops behind <answer>. So -5 reads
# as 5 and is wrong, for the answer 5 it is right, and no response is right where the answer is negative. Of
# <answer>1,234</answer> they read 1. simple_math reads an answer of "1,234" as no number: nothing is right then.
# What to do: keep answers that are negative, or have commas, out of the data; or give a reward function of your own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile absl-py==2.5.1
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/tunix" google-tunix==0.1.7
cat > "$folder/check.py" <<'PYTHON'
import importlib.util
import sys
from pathlib import Path


def module(name):
    """One of its files of rewards, by itself: the package's own import wants JAX."""
    path = Path(sys.argv[1], f"tunix/cli/reward_fn/{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


REWARDS = {"simple_math": module("simple_math").check_answer, "gsm8k": module("gsm8k").check_numbers}
CASES = [("5", "5", 1), ("-5", "-5", 1), ("-5", "5", 0), ("1,234", "1234", 1), ("1234", "1,234", 1)]
print("google-tunix 0.1.7")
found = {}
for name, reward in REWARDS.items():
    for response, answer, wanted in CASES:
        text = f"<reasoning>so</reasoning><answer>{response}</answer>"
        [value] = reward(None, [text], [answer])
        found[name, response, answer] = int(value > 0)
        print(f"{name}: response {response}, answer {answer}: {value} (expected {'more than 0' if wanted else 0})")
seen = [[found[name, response, answer] for response, answer, _ in CASES] for name in REWARDS]
raise SystemExit(seen != [[1, 0, 1, 0, 0], [1, 0, 1, 0, 1]])
PYTHON
"$folder/venv/bin/python" "$folder/check.py" "$folder/tunix"
