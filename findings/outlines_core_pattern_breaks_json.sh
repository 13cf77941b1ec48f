#!/usr/bin/env bash
# outlines-core 0.2.14: a string's "pattern" such as .+ lets quotes and backslashes through, so the text is no JSON.
#
# Expected: what a JSON schema's expression lets a model write is JSON, as a string without a pattern is.
# Observed: the pattern is put between two quotes as it is. A dot, [^,] or \S also stands for a quote and for a
# backslash. {"name": "x"y", "ok": true} may be written, and json.loads refuses it. Bounds of numbers are passed over
# without a word: -7 may be written from 0 to 10.
# What to do: write patterns of named characters, [A-Za-z ]+, and validate the text before it is graded.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    outlines-core==0.2.14 jsonschema==4.25.1
cat > "$folder/check.py" <<'PYTHON'
import json

import jsonschema
from outlines_core import Guide, Index, Vocabulary
from outlines_core.json_schema import build_regex_from_schema

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "ok": {"type": "boolean"}},
    "required": ["name", "ok"],
    "additionalProperties": False,
}
CHARACTERS = [chr(code) for code in range(32, 127)]
VOCABULARY = Vocabulary(len(CHARACTERS), {character: [token] for token, character in enumerate(CHARACTERS)})


def index_of(schema):
    return Index(build_regex_from_schema(json.dumps(schema)), VOCABULARY)


def may_be_written(index, text):
    guide = Guide(index)
    for character in text:
        token = CHARACTERS.index(character)
        if token not in guide.get_tokens():
            return False
        guide.advance(token)
    return guide.is_finished()


def fits(text, schema):
    try:
        jsonschema.validate(json.loads(text), schema)
    except ValueError:
        return "no JSON"
    except jsonschema.ValidationError:
        return "not in the schema"
    return "fits"


pattern = json.loads(json.dumps(SCHEMA))
pattern["properties"]["name"]["pattern"] = "^.+$"
plain, dotted = index_of(SCHEMA), index_of(pattern)
TEXTS = {
    '{"name": "x", "ok": true}': ("fits", True, True),
    '{"name": "x"y", "ok": true}': ("no JSON", False, True),
    '{"name": "x\\", "ok": true}': ("no JSON", False, True),
}
changed = False
print("outlines-core 0.2.14: text, what it is, may be written without a pattern, with ^.+$ (expected: only what fits)")
for text, observed in TEXTS.items():
    found = fits(text, pattern), may_be_written(plain, text), may_be_written(dotted, text)
    print(text, *found, sep=" | ")
    changed |= found != observed
low = may_be_written(index_of({"type": "integer", "minimum": 0, "maximum": 10}), "-7")
print("-7 where an integer is from 0 to 10:", low)
raise SystemExit(changed or not low)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
