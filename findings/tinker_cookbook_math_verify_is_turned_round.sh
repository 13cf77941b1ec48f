#!/usr/bin/env bash
# tinker-cookbook 0.6.1 with math-verify 0.9.0: the grader "math_verify" has gold and answer in the wrong order.
#
# Expected: grade_answer_math_verify(answer, gold) is math-verify's verify(gold, answer). Its two arguments are not alike:
# an interval is a right answer to a gold inequality; the other way round it is not.
# Observed: it calls verify(answer, gold). So (3, infinity) for the gold answer x > 3 is wrong here and right in
# math-verify, and x > 3 for the gold answer (3, infinity) is right here and wrong there.
# What to do: call math_verify.verify(parse(gold), parse(answer)) in a grader of your own where answers are inequalities.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pylatexenc==2.10 'math-verify[antlr4_13_2]==0.9.0'
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps tinker-cookbook==0.6.1
cat > "$folder/check.py" <<'PYTHON'
from math_verify import parse, verify
from tinker_cookbook.recipes.math_rl.math_grading import grade_answer_math_verify

inequality, interval = "x>3", r"(3,\infty)"
cookbook = grade_answer_math_verify(interval, inequality), grade_answer_math_verify(inequality, interval)
parsed = {text: parse(f"${text}$") for text in (inequality, interval)}
package = verify(parsed[inequality], parsed[interval]), verify(parsed[interval], parsed[inequality])
print("interval for inequality, inequality for interval: cookbook", cookbook, "math-verify", package)
raise SystemExit((cookbook, package) != ((False, True), (True, False)))
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
