#!/usr/bin/env bash
# inspect-ai 0.3.285: match(numeric=True) compares five significant digits, so 2025001 is right where 2025000 is.
#
# Expected: two integers are equal or not. Where a scorer of numbers rounds, it says so and lets one choose how far.
# Observed: both sides are written with five significant digits and those texts are compared. So 2025001 passes for
# 2025000, 999999 for 1000000, 20,000,400 for 20000000; the recorded answer is '2.025e+06'. With location "exact" too:
# there 123461 passes for 123456. Up to 99999 integers are told apart. No argument of `match` changes it.
# What to do: take "exact" or "end" without numeric=True where gold answers have six digits or more, or compare the
# number in a scorer of your own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile inspect-ai==0.3.285
cat > "$folder/check.py" <<'PYTHON'
import asyncio
from importlib.metadata import version
from types import SimpleNamespace

from inspect_ai.scorer import Target, match


def grade(given, gold, location="end"):
    state = SimpleNamespace(output=SimpleNamespace(completion=given))
    score = asyncio.run(match(location, numeric=True)(state, Target(gold)))
    return score.value, score.answer


print("inspect-ai", version("inspect_ai"), "(expected: I, incorrect, for each of the first five)")
found = {}
for given, gold, location in (
    ("The answer is 2025001", "2025000", "end"),
    ("The answer is 999999", "1000000", "end"),
    ("The answer is 20,000,400", "20000000", "end"),
    ("The answer is 0.123461", "0.123456", "any"),
    ("123461", "123456", "exact"),
    ("The answer is 12346", "12345", "end"),
    ("The answer is 2025000", "2025000", "end"),
):
    value, answer = found[gold, given] = grade(given, gold, location)
    print(f"{gold:>9} for {given!r} at {location!r}: {value}, the answer recorded as {answer!r}")
values = "".join(value for value, _ in found.values())
raise SystemExit(values != "CCCCCIC" or found["2025000", "The answer is 2025001"][1] != "2.025e+06")
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
