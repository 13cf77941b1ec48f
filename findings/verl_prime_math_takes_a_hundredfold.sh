#!/usr/bin/env bash
# verl 0.9.1: its grader for Numina's problems takes 18 for 1800 and for 0.18, and every answer that is 0.01 % off.
#
# Expected: a hundredfold is right only where one side is a percentage. An integer is right or wrong.
# Observed: prime_math compares two numbers with the gold answer, a hundredth of it and a hundredfold, whether or not a
# per cent sign is near, and each within one part in 10,000. 18 passes for 1800, 0.18 for 18, 5000 for 50; 10001 passes
# for 10000 and 100009 for 100000. The caller of a data set numina_* (verl's default reward) has no setting for either.
# What to do: for such data name a reward function of your own (reward.custom_reward_function.path).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    numpy==2.3.5 sympy==1.14.0 pylatexenc==2.10 antlr4-python3-runtime==4.11.0
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/verl" verl==0.9.1
# verl's own __init__ wants a whole training environment, and so does its module of metrics: both are left out.
cat > "$folder/check.py" <<'PYTHON'
import sys
from types import ModuleType

for name in ("verl", "verl.utils", "verl.utils.reward_score", "verl.utils.metric"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [f"{sys.argv[1]}/{name.replace('.', '/')}"]
sys.modules["verl.utils.metric"].Metric = object

from verl.utils.reward_score.prime_math import compute_score

WRONG = [("18", "1800"), ("0.18", "18"), ("5000", "50"), ("10001", "10000"), ("100009", "100000")]
OTHERS = [("180", "18"), ("19", "18"), ("18", "18")]


def grade(given, gold):
    return compute_score(rf"So the answer is \boxed{{{given}}}.", gold)[0]


if __name__ == "__main__":
    taken = {f"{given} for {gold}": grade(given, gold) for given, gold in WRONG}
    others = {f"{given} for {gold}": grade(given, gold) for given, gold in OTHERS}
    print("verl 0.9.1, prime_math (expected: False for each of these)")
    print(taken)
    print("and as expected:", others)
    raise SystemExit(list(taken.values()) != [True] * 5 or list(others.values()) != [False, False, True])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/verl"
