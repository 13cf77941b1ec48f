#!/usr/bin/env bash
# torchrl 0.14.1, axolotl 0.21.0 with math-verify 0.9.0: \sqrt{3} is wrong for \sqrt{3}, 2\sqrt{5} right for 2\sqrt{3}.
#
# Expected: math-verify compares formulas, "symbolic equivalence" in torchrl's words. At the least equal texts are
# equal.
# Observed: both give it the inside of the gold box without delimiters. Outside of delimiters it reads plain numbers and
# fractions, and nothing else. So \sqrt{3}, x+1, (1,2) are read as nothing, and are wrong for themselves: torchrl pays
# the 0.1 of a wrong answer, also where the response writes $\sqrt{3}$. Of 2\sqrt{3} and 2\sqrt{5} both read 2: equal,
# as are 3\pi and 3, 2^{10} and 2^{5}. The comparison of texts that both have comes only where math-verify is missing:
# without it torchrl pays 1.0 for \sqrt{3} and 0.1 for 2\sqrt{5}. So installing it makes the grades worse.
# What to do: torchrl: leave math-verify out, or put the gold answers (inside of the box) and the responses between
# dollars. axolotl's hatchery reward: a function of your own that does so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile numpy==2.3.5 torch==2.13.0 \
    torchrl==0.14.1 math-verify==0.9.0 latex2sympy2_extended==1.11.0
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --ignore-requires-python --target "$folder/axolotl" axolotl==0.21.0
# axolotl's module is loaded alone, with Python's logging for its own: the package wants a whole environment, and 3.12.
cat > "$folder/check.py" <<'PYTHON'
import logging
import sys
from importlib.metadata import version
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from unittest import mock

from torchrl.envs.llm.reward import math as torchrl_math

for name in ("axolotl", "axolotl.utils", "axolotl.utils.logging"):
    sys.modules[name] = ModuleType(name)
sys.modules["axolotl.utils.logging"].get_logger = logging.getLogger
path = f"{sys.argv[1]}/axolotl/integrations/hatchery/rewards/math_reward.py"
spec = spec_from_file_location("math_reward", path)
module = module_from_spec(spec)
spec.loader.exec_module(module)


def torchrl_reward(answer, gold):
    parser = torchrl_math.MATHRewardParser()
    gold = parser.extract_boxed(rf"Hence \boxed{{{gold}}}.")
    _, answer = parser.extract_tags(f"<think>so</think> <answer>{answer}</answer>")
    return round(float(parser._single_correctness_reward(gold, answer, "so")["reward"]), 2)


def axolotl_reward(answer, gold):
    return module.math_reward([f"<|gold|>{gold}<|/gold|>"], [rf"Hence \boxed{{{answer}}}."])[0]


CASES = [  # answer, gold, expected, observed in torchrl, in torchrl without math-verify, in axolotl
    (r"\frac{1}{2}", r"\frac{1}{2}", 1.0, 1.0, 1.0, 1.0),
    (r"\sqrt{3}", r"\sqrt{3}", 1.0, 0.1, 1.0, 0.0),
    (r"$\sqrt{3}$", r"\sqrt{3}", 1.0, 0.1, 1.0, 0.0),
    (r"$\sqrt{3}$", r"$\sqrt{3}$", 1.0, 1.0, 1.0, 1.0),
    ("x+1", "x+1", 1.0, 0.1, 1.0, 0.0),
    ("(1,2)", "(1,2)", 1.0, 0.1, 1.0, 0.0),
    (r"2\sqrt{5}", r"2\sqrt{3}", 0.0, 1.0, 0.1, 1.0),
    ("3", r"3\pi", 0.0, 1.0, 0.1, 1.0),
    ("2^{5}", "2^{10}", 0.0, 1.0, 0.1, 1.0),
]
print("torchrl", version("torchrl"), "and axolotl 0.21.0, math-verify", version("math-verify"))
found = []
for answer, gold, expected, *_ in CASES:
    with_it = torchrl_reward(answer, gold)
    with mock.patch.object(torchrl_math, "_has_math_verify", False):
        without = torchrl_reward(answer, gold)
    found.append((with_it, without, axolotl_reward(answer, gold)))
    rewards = f"torchrl {with_it} ({without} without math-verify), axolotl {found[-1][2]}"
    print(f"{answer} for {gold}: expected {expected}, {rewards}")
raise SystemExit(found != [case[3:] for case in CASES])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/axolotl"
