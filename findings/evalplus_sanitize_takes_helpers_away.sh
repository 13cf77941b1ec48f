#!/usr/bin/env bash
# evalplus 0.3.1: sanitize() deletes decorated functions and filled tables, so a right solution fails on a missing name.
#
# Expected: what the wanted function needs stays: helpers, their decorators, tables and how they are filled. Only text
# and code that it does not reach goes.
# Observed: of the top level it keeps imports, plain functions with a `return`, classes and first assignments. A helper
# under @lru_cache is none of these, and goes although the solution calls it: NameError. A table stays without the loop
# that fills it: KeyError. The wanted function goes too where it is decorated itself: only the import is left.
# Code generation writes the samples to evaluate through sanitize, so such solutions count as wrong.
# What to do: evaluate the raw samples, which are written beside them, where a raw one parses as it is.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    datasets==5.2.0 appdirs==1.4.4 tempdir==0.7.1 wget==3.2 termcolor==3.1.0 \
    tree-sitter==0.25.2 tree-sitter-python==0.25.0
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps evalplus==0.3.1
cat > "$folder/check.py" <<'PYTHON'
from importlib.metadata import version

from evalplus.sanitize import sanitize

SOLUTIONS = {
    "cached helper": """
from functools import lru_cache

@lru_cache(maxsize=None)
def count(steps):
    return 1 if steps < 2 else count(steps - 1) + count(steps - 2)

def climb(steps):
    return count(steps)
""",
    "table filled by a loop": """
WAYS = {0: 1, 1: 1}
for steps in range(2, 50):
    WAYS[steps] = WAYS[steps - 1] + WAYS[steps - 2]

def climb(steps):
    return WAYS[steps]
""",
    "decorated itself": """
from functools import lru_cache

@lru_cache(maxsize=None)
def climb(steps):
    return 1 if steps < 2 else climb(steps - 1) + climb(steps - 2)
""",
    "plain helper": """
def count(steps):
    return 1 if steps < 2 else count(steps - 1) + count(steps - 2)

def climb(steps):
    return count(steps)
""",
}


def outcome(code):
    space = {}
    try:
        exec(code, space)
        return space["climb"](10)
    except Exception as error:
        return type(error).__name__


found = {}
print("evalplus", version("evalplus"), "(expected: 89 ways of climbing ten steps, each time)")
for name, code in SOLUTIONS.items():
    found[name] = outcome(code), outcome(sanitize(code, "climb"))
    print(f"{name}: as written {found[name][0]}, sanitized {found[name][1]}")
expected = {
    "cached helper": (89, "NameError"),
    "table filled by a loop": (89, "KeyError"),
    "decorated itself": (89, "KeyError"),
    "plain helper": (89, 89),
}
raise SystemExit(found != expected)
PYTHON
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore "$folder/check.py"
