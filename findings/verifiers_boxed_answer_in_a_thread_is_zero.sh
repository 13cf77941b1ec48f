#!/usr/bin/env bash
# verifiers 0.4.0 with math-verify 0.9.0: off the main thread verify_boxed_math_answer gives every right answer 0.
#
# Expected: the same score in any thread, or an error. A reward function is often sent to a thread, so that it does not
# hold up the rollouts.
# Observed: \boxed{5} for the answer 5 scores 1.0 on the main thread and 0.0 in another, without error or warning.
# math-verify limits its time by a signal, which Python allows on the main thread only, and raises elsewhere. The
# function takes any error for a malformed answer.
# What to do: call it on the main thread or in a process of its own. If a run has not one right answer, score a reference
# answer in the place where rewards are computed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check verifiers==0.4.0 math-verify==0.9.0
cat > "$folder/check.py" <<'PYTHON'
from concurrent.futures import ThreadPoolExecutor

from verifiers.v1 import verify_boxed_math_answer

answers = {r"\boxed{5}": "5", r"it is \boxed{\frac{1}{2}}": "0.5", r"\boxed{x+1}": "1+x"}
here = [verify_boxed_math_answer(response, answer) for response, answer in answers.items()]
with ThreadPoolExecutor(1) as executor:
    there = list(executor.map(verify_boxed_math_answer, answers, answers.values()))
print("right answers on the main thread:", here, "in another:", there)
raise SystemExit(here != [1.0] * 3 or there != [0.0] * 3)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
