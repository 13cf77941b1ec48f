#!/usr/bin/env bash
# lm-format-enforcer 0.11.3: text that it enforces need not be JSON, and an integer may be 1e-5.
#
# Expected: what a schema's parser lets a model end with is JSON, and fits the schema, so that json.loads never fails.
# Observed: behind a comma it takes a closing brace where a property is left: {"answer": 5, } may end, and json.loads
# refuses it. That needs one optional property. For "integer" it takes exponents: 1e-5 is allowed, and 3e1, which
# json.loads makes a float. A reward that reads such text fails, or is 0, for text that was enforced.
# What to do: make every property required (null for "none"), and validate the text before it is graded.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    lm-format-enforcer==0.11.3 jsonschema==4.25.1
cat > "$folder/check.py" <<'PYTHON'
import json

import jsonschema
from lmformatenforcer import JsonSchemaParser

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["answer"],
}


def enforcer_ends(text):
    parser = JsonSchemaParser(SCHEMA)
    for character in text:
        if character not in parser.get_allowed_characters():
            return False
        parser = parser.add_character(character)
    return parser.can_end()


def fits(text):
    try:
        jsonschema.validate(json.loads(text), SCHEMA)
    except ValueError:
        return "no JSON"
    except jsonschema.ValidationError:
        return "not in the schema"
    return "fits"


CASES = [
    ('{"answer": 5}', "fits", True),
    ('{"answer": 5, "note": "so"}', "fits", True),
    ('{"answer": 5.5}', "not in the schema", False),
    ('{"answer": 05}', "no JSON", False),
    ('{"answer": 5, }', "no JSON", True),
    ('{"answer": 1e-5}', "not in the schema", True),
    ('{"note": "so"}', "not in the schema", False),
]
changed = False
print("lm-format-enforcer 0.11.3: text, what it is, may a model end so (expected: only what fits)")
for text, *expected in CASES:
    found = [fits(text), enforcer_ends(text)]
    print(text, *found, sep=" | ")
    changed |= found != expected
raise SystemExit(changed)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
