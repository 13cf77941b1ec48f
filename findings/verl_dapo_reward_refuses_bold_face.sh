#!/usr/bin/env bash
# verl 0.9.1: "**Answer:** 42" earns -1 where 42 is right, with the right box behind it too.
#
# Expected: the answer line that DAPO's prompt asks for may be set in bold face, as chat models set it. Where that line
# cannot be read, the box counts, which the function takes as its second way.
# Observed: behind "Answer:" everything to the end of the line is the answer, stars included: "** 42" is not 42, and
# neither is "42**". The box is looked at only where "Answer:" is nowhere. So a response with such a bold line, or with
# "Final answer: see the box", is worth -1 although \boxed{42} follows. And what a box holds is compared as it is:
# "Answer: 1,000" is right where 1000 is, \boxed{1,000} is wrong. It is the default reward of math_dapo and aime*.
# What to do: take the stars out before grading, by a reward function of your own (reward.custom_reward_function.path).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/verl" verl==0.9.1
# The module is loaded alone: the package's own imports want a whole training environment.
cat > "$folder/check.py" <<'PYTHON'
import runpy
import sys

compute_score = runpy.run_path(sys.argv[1] + "/verl/utils/reward_score/math_dapo.py")["compute_score"]
RESPONSES = {
    "Answer: 42": "42",
    "**Answer:** 42": "42",
    "**Answer: 42**": "42",
    "**Answer:** 42\n\\boxed{42}": "42",
    "Final answer: see the box.\n\\boxed{42}": "42",
    "So \\boxed{42}": "42",
    "Answer: 1,000": "1000",
    "So \\boxed{1,000}": "1000",
}
found = {response: compute_score(response, gold) for response, gold in RESPONSES.items()}
print("verl 0.9.1, math_dapo (expected: 1.0 for each, all are right)")
for response, result in found.items():
    print(f"{result['score']:4} {response!r}, read as {result['pred']!r}")
scores = [result["score"] for result in found.values()]
raise SystemExit(scores != [1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0, -1.0])
PYTHON
"$folder/venv/bin/python" "$folder/check.py" "$folder/verl"
