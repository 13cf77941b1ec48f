#!/usr/bin/env bash
# verl 0.9.1: a right program that uses `global`, or a text over several lines, fails in its reward for code.
#
# Expected: a program that reads standard input and writes the right answer passes, as under `python program.py`.
# Observed: prime_code indents the program by a tab and makes it the body of a function. Its global names are local
# then: `global total` in one of its functions finds none, and the program ends in NameError. A text in triple quotes
# gets a tab into each further line. Both programs print the right answer when they are run; the reward is 0.
# What to do: set a sandbox (reward.sandbox_fusion.url), or ask in the prompt for a main() without global names.
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
import subprocess
import sys
from types import ModuleType

for name in ("verl", "verl.utils", "verl.utils.reward_score"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [f"{sys.argv[1]}/{name.replace('.', '/')}"]

from verl.utils.reward_score.prime_code import compute_score

GLOBAL = """
total_seen = 0

def add(number):
    global total_seen
    total_seen += number

for word in input().split():
    add(int(word))
print(total_seen)
"""
TEXT = '''
GRID = """1 2
3 4"""
rows = GRID.split("\\n")
print(sum(map(int, input().split())) if rows[1] == "3 4" else "no such row")
'''
PLAIN = "print(sum(map(int, input().split())))"
TESTS = {"inputs": ["3 5\n"], "outputs": ["8\n"]}


def score(code):
    printed = subprocess.run([sys.executable, "-c", code], input="3 5\n", capture_output=True, text=True).stdout
    return printed.strip(), float(compute_score(f"```python\n{code}\n```", json.dumps(TESTS), continuous=True)[0])


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    found = {"global": score(GLOBAL), "text over two lines": score(TEXT), "neither": score(PLAIN)}
    print("verl 0.9.1, prime_code: the sum of 3 and 5 (expected: 8 and 1.0, three times)")
    for name, (printed, reward) in found.items():
        print(f"{name}: prints {printed}, reward {reward}")
    raise SystemExit(found != {"global": ("8", 0.0), "text over two lines": ("8", 0.0), "neither": ("8", 1.0)})
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/verl"
