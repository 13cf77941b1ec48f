#!/usr/bin/env bash
# tinker-cookbook 0.6.1: grade_answer takes "10 hours" for "10 days", and refuses 100 for 10^{2}.
#
# Expected: a unit that is named is compared, or left out only where the gold answer has none.
# Observed: fifteen units are deleted from both sides, also inside of words and where they are the whole answer: "second"
# is "day", "Monday" is "Mon", "5 meters" is "5 miles". On the other hand no expression with ^{ or ^( is computed, so
# 10^{2} and 100, 2^{10} and 1024 are told apart. The recipe for mathematics uses this grader unless told otherwise.
# What to do: set grader="math_verify" in the recipe (mind its arguments: tinker_cookbook_math_verify_is_turned_round.sh),
# or keep prompts whose answers are units or have powers out of the data.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check sympy==1.14.0 pylatexenc==2.10
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps tinker-cookbook==0.6.1
cat > "$folder/check.py" <<'PYTHON'
from tinker_cookbook.recipes.math_rl.math_grading import grade_answer

wrong = [("10 hours", "10 days"), ("5 miles", "5 meters"), ("Mon", "Monday"), (r"\text{day}", r"\text{second}")]
right = [("100", "10^{2}"), ("1024", "2^{10}")]
taken = [grade_answer(given, gold) for given, gold in wrong]
refused = [grade_answer(given, gold) for given, gold in right]
print("wrong:", wrong, taken)
print("right:", right, refused)
raise SystemExit(not all(taken) or any(refused))
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
