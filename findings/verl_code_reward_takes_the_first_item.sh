#!/usr/bin/env bash
# verl 0.9.1: where a list is the right return value, its reward for code takes the list's first item too.
#
# Expected: a function passes a test if it returns what the test expects: [3, 5] sorted is [3, 5], and nothing else.
# Observed: prime_code compares the value with the expected one, and where that is a list with its first item as well.
# So `min` passes every test of sorting, and "first" every test that wants all: 3 for [3, 5], "a" for ["a", "b"],
# [1, 2] for [[1, 2], [3, 4]]. Sets like APPS wrap each value in a list of one; sets that do not are open to this.
# What to do: wrap each expected value in a list of one, [[3, 5]]: then the list passes and its first item does not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile numpy==2.3.5
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/verl" verl==0.9.1
# verl's own __init__ wants a whole training environment: it is left out.
cat > "$folder/check.py" <<'PYTHON'
import json
import multiprocessing
import sys
from types import ModuleType

for name in ("verl", "verl.utils", "verl.utils.reward_score"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [f"{sys.argv[1]}/{name.replace('.', '/')}"]

from verl.utils.reward_score.prime_code import compute_score

TESTS = [([5, 3], [3, 5]), (["b", "a"], ["a", "b"]), ([[3, 4], [1, 2]], [[1, 2], [3, 4]])]


def score(function, wrapped=False):
    tests = {
        "fn_name": "order",
        "inputs": [json.dumps(given) for given, _ in TESTS],
        "outputs": [json.dumps([gold] if wrapped else gold) for _, gold in TESTS],
    }
    code = f"def order(items):\n    return {function}(items)"
    return float(compute_score(f"```python\n{code}\n```", json.dumps(tests), continuous=True)[0])


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    found = {name: (score(name), score(name, wrapped=True)) for name in ("sorted", "min", "max")}
    print("verl 0.9.1, prime_code: a function that sorts (expected: sorted 1.0, min and max 0.0)")
    for name, (plain, wrapped) in found.items():
        print(f"return {name}(items): {plain}; expected values wrapped once more: {wrapped}")
    raise SystemExit(found != {"sorted": (1.0, 1.0), "min": (1.0, 0.0), "max": (0.0, 0.0)})
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/verl"
