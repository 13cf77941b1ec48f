#!/usr/bin/env bash
# trl 1.16.0 with math-verify 0.9.0: accuracy_reward reads a part of a raw solution, and pays for that part.
#
# Expected: solutions are given as raw text (so the function's page and its example, \frac{1}{3} without delimiters). A
# response that boxes the solution gets 1.0, another number gets 0.0. What cannot be read gets None, and is left out.
# Observed: outside of delimiters a lone number in the text is taken for the whole. 2\sqrt{3} is read as 2, 3\pi as 3,
# 2^{10} as 2: the right response gets 0.0 and \boxed{2} gets 1.0, so training pushes away from the answer. None, the
# way out for what cannot be read, is not taken. \frac{1}{3} of the example happens to be read whole.
# What to do: put the solution between dollars, or into \boxed{}, in the data set; then all three are graded right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check packaging math-verify==0.9.0
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps trl==1.16.0
cat > "$folder/check.py" <<'PYTHON'
from importlib.metadata import version

from trl.rewards import accuracy_reward

SOLUTIONS = {r"\frac{1}{3}": "1", r"2\sqrt{3}": "2", r"3\pi": "3", r"2^{10}": "2"}  # and a wrong answer to each


def grade(answer, solution):
    return accuracy_reward([[{"role": "assistant", "content": rf"So it is \boxed{{{answer}}}"}]], [solution])[0]


found = {}
print("trl", version("trl"), "with math-verify", version("math-verify"), "(expected: right 1.0, the other 0.0)")
for solution, wrong in SOLUTIONS.items():
    raw = grade(solution, solution), grade(wrong, solution)
    delimited = grade(solution, f"${solution}$"), grade(wrong, f"${solution}$")
    found[solution] = raw, delimited
    print(f"{solution:12} raw: right {raw[0]}, {wrong} {raw[1]};", end=" ")
    print(f"between dollars: right {delimited[0]}, {wrong} {delimited[1]}")
right, inverted = (1.0, 0.0), (0.0, 1.0)
expected = {name: (right if name == r"\frac{1}{3}" else inverted, right) for name in SOLUTIONS}
raise SystemExit(found != expected)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
