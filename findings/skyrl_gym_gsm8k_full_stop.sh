#!/usr/bin/env bash
# skyrl-gym 0.4.0: "#### 18." and "#### $18" earn nothing where 18 is right.
#
# Expected: the answer after "####" is read as a number; a sentence may end behind it. Dollar signs are taken off, as a
# line of the function does.
# Observed: the pattern takes every full stop into the answer, which is then compared as text: "18." is not "18", and
# "18.00" is not. It takes no dollar sign at all, so the line that takes it off never does, and "#### $18" has no answer.
# Only the first "####" counts, also where a response corrects itself.
# What to do: ask in the prompt for the bare number at the very end, or stop at the end of the line.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check skyrl-gym==0.4.0
cat > "$folder/check.py" <<'PYTHON'
from skyrl_gym.envs.gsm8k.utils import compute_score

responses = ["#### 18", "#### 18.", "#### 18.00", "#### $18", "#### 17, no:\n#### 18"]
scores = [compute_score(response, "18") for response in responses]
print(dict(zip(responses, scores)))
raise SystemExit(scores[0] != 1.0 or any(scores[1:]))
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
