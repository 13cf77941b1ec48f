#!/usr/bin/env bash
# smolagents 1.26.0: its executor reads the most similar variable for a misspelt name, and raises no KeyError.
#
# Expected: a name that was never assigned is an error, as in Python. `except KeyError` catches a missing key.
# Observed: a name that is not known is looked up by similarity. After price_new = 5 the name price_now is 5, and total
# is totals. `count += 1` without a count begins at 0. So a wrong program passes, and the model never learns of its
# slip. The other way round a missing key or index raises InterpreterError. `except KeyError` and `except IndexError` do
# not catch it, and a right program ends there. OpenEnv's executor of code (openenv 0.10.0) wraps this one.
# What to do: run the code of rollouts in a real interpreter; smolagents has executors for containers (executor_type).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile smolagents==1.26.0
cat > "$folder/check.py" <<'PYTHON'
from smolagents.local_python_executor import LocalPythonExecutor

MISSING = "try:\n    value = {need}\nexcept {error}:\n    value = 0"
CASES = [
    ("price_new = 5\nvalue = 2 * price_now", "NameError", 10),
    ("totals = [1, 2]\nvalue = sum(total)", "NameError", 3),
    ("for word in ('a', 'b'):\n    count += 1\nvalue = count", "NameError", 2),
    (MISSING.format(need="{'a': 1}['b']", error="KeyError"), 0, "InterpreterError"),
    (MISSING.format(need="[1, 2][2]", error="IndexError"), 0, "InterpreterError"),
]


def in_python(code):
    names = {}
    exec(code, names)
    return names["value"]


def in_smolagents(code):
    executor = LocalPythonExecutor(additional_authorized_imports=[])
    executor.send_tools({})
    return executor(f"{code}\nvalue").output


def result(run, code):
    try:
        return run(code)
    except Exception as error:
        return type(error).__name__


changed = False
print("smolagents 1.26.0, LocalPythonExecutor")
for code, *expected in CASES:
    found = [result(run, code) for run in (in_python, in_smolagents)]
    print(code, "-> Python: {}, smolagents: {}\n".format(*found), sep="\n")
    changed |= found != expected
raise SystemExit(changed)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
