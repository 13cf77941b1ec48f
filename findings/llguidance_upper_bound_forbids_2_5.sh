#!/usr/bin/env bash
# llguidance 1.9.1: with "maximum": 2.55 a number may be 2.4, 2.50 and 2.55, and not 2.5.
#
# Expected: what a JSON schema allows can be written, in its shortest form above all.
# Observed: where an upper bound has two digits after the point, the number with the first of them alone is refused.
# That is 2.5 of at most 2.55, and 0.9 of at most 0.95 or 0.99. Below 0 it is the lower bound: -1.2 of at least -1.25. A
# model that means 0.9 cannot stop there and has to add a digit, so the 0.9 of a judge becomes 0.90, or 0.95. Bounds
# with one digit are right, and so were all other values of the bounds tried.
# What to do: give bounds one digit or none, or a pattern, and check the rest after parsing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile llguidance==1.9.1
cat > "$folder/check.py" <<'PYTHON'
import json
from decimal import Decimal

from llguidance import LLMatcher, LLTokenizer

TOKENIZER = LLTokenizer("byte")


def may_be_written(schema, text):
    matcher = LLMatcher(TOKENIZER, LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    tokens = TOKENIZER.tokenize_str(text)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def refused(low, high):
    """Returns the numbers with up to two digits after the point that are in the bounds and cannot be written."""
    schema = {"type": "number", "minimum": low, "maximum": high}
    numbers = [Decimal(hundredths) / 100 for hundredths in range(-1000, 1001)]
    shortest = [f"{number.normalize():f}" for number in numbers if low <= float(number) <= high]
    return [text for text in shortest if not may_be_written(schema, text)]


BOUNDS = {
    (0, 1): [],
    (0.1, 0.9): [],
    (0, 0.95): ["0.9"],
    (0.01, 0.99): ["0.9"],
    (0, 2.55): ["2.5"],
    (-1.25, 1.25): ["-1.2", "1.2"],
}
changed = False
print("llguidance 1.9.1: bounds, numbers in them that cannot be written (expected: none)")
for (low, high), observed in BOUNDS.items():
    found = refused(low, high)
    print(f"{low} to {high}:", *found)
    changed |= found != observed
schema = {"type": "number", "minimum": 0, "maximum": 2.55}
forms = {text: may_be_written(schema, text) for text in ("2.4", "2.5", "2.50", "2.55", "2.56")}
print("at most 2.55:", forms)
raise SystemExit(changed or list(forms.values()) != [True, False, True, True, False])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
