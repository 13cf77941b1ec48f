#!/usr/bin/env bash
# atroposlib 0.4.0: a tool call whose text has an apostrophe is an error, though it is valid JSON.
#
# Expected: parse_tool_call reads the JSON between the tags. Quotes of another kind are tried only if that fails.
# Observed: every ' is made a " before the JSON is read. {"query": "Newton's second law"} is then no JSON: it comes back
# as "-ERROR-" with no arguments, as do code with '...' in it and "don't". So a policy is punished for apostrophes, and
# learns to do without. The same call with "laws of Newton" is read.
# What to do: json.loads the text between the tags yourself, and use the function only where that raises.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --target "$folder/atroposlib" atroposlib==0.4.0
# The module is loaded alone: the package's own imports want servers and models.
cat > "$folder/check.py" <<'PYTHON'
import json
import logging
import runpy
import sys

logging.disable(logging.CRITICAL)
parse = runpy.run_path(sys.argv[1] + "/atroposlib/utils/tool_call_parser.py")["parse_tool_call"]


def read(arguments):
    name, found, is_error = parse(f"<tool_call>{json.dumps({'name': 'tool', 'arguments': arguments})}</tool_call>")
    return "error" if is_error else found


CALLS = [
    {"query": "laws of Newton"},
    {"query": "Newton's second law"},
    {"code": "print('hello')"},
    {"text": "don't"},
]
found = [read(call) for call in CALLS]
print("atroposlib 0.4.0 (expected: the arguments as they were)")
for call, got in zip(CALLS, found):
    print(call, "->", got)
raise SystemExit(found != [CALLS[0], "error", "error", "error"])
PYTHON
"$folder/venv/bin/python" "$folder/check.py" "$folder/atroposlib"
