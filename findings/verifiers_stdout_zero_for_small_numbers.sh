#!/usr/bin/env bash
# verifiers 0.4.0: compare_stdout_results takes 0 for any number that is at most 0.001.
#
# Expected: a tolerance for rounding is relative to what is expected, as in judges of programming contests, or the larger
# of both kinds.
# Observed: it is absolute, 0.001. A program that prints 0 passes where 0.0009 is right: probabilities, errors, lengths in
# kilometres. Of 1000000.01 instead the ninth digit has to be right. Line breaks do not count once numbers are compared.
# What to do: pass `tolerance` by the size of the expected numbers, and leave out tests whose every answer is that small.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check verifiers==0.4.0
cat > "$folder/check.py" <<'PYTHON'
from verifiers.v1.utils.score import compare_stdout_results as passes

found = {
    "0 for 0.0009": passes("0", "0.0009"),
    "0 0 0 for three small numbers": passes("0 0 0", "0.0001\n0.0007\n0.00004"),
    "1000000.01 for 1000000.02": passes("1000000.01", "1000000.02"),
    "1e-9 off at 1": passes("1.000000001", "1"),
}
print(found)
raise SystemExit(list(found.values()) != [True, True, False, True])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
