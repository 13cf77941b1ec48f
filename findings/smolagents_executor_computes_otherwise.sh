#!/usr/bin/env bash
# smolagents 1.26.0: its executor of Python code gives other results than Python: 7 for 12, [[1, 2], 3] for [1, 2, 3].
#
# Expected: code that the executor takes gives what Python gives. What it does not support is refused with an error.
# Observed: it walks the syntax tree itself, and gets common forms wrong without a word. Two `for` in a generator
# expression run one behind the other, so sum(1 for i in range(3) for j in range(4)) is 7, not 12. A * in a list nests:
# [*[1, 2], 3] is [[1, 2], 3]. *rest holds the named arguments too. A default is lost to a global variable of its name.
# The `else` of a loop never runs. An agent whose program is right reads a wrong answer. Its reward is then for that.
# OpenEnv's executor of code (openenv 0.10.0) wraps this one.
# What to do: run the code of rollouts in a real interpreter; smolagents has executors for containers (executor_type).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile smolagents==1.26.0
cat > "$folder/check.py" <<'PYTHON'
from smolagents.local_python_executor import LocalPythonExecutor

CASES = [
    ("pairs = sum(1 for i in range(3) for j in range(4))", "pairs", 7),
    ("joined = [*[1, 2], 3]", "joined", [[1, 2], 3]),
    ("def total(first, *rest):\n    return first + sum(rest)\nsix = total(1, 2, 3)", "six", 7),
    ("k = 10\ndef power(x, k=2):\n    return x ** k\nnine = power(3)", "nine", 59049),
    ("prime = None\nfor d in (2, 3, 4):\n    if 7 % d == 0:\n        break\nelse:\n    prime = True", "prime", None),
]
changed = False
print("smolagents 1.26.0, LocalPythonExecutor")
for code, name, observed in CASES:
    python = {}
    exec(code, python)
    executor = LocalPythonExecutor(additional_authorized_imports=[])
    executor.send_tools({})
    found = executor(f"{code}\n{name}").output
    print(code, f"-> {name}: Python {python[name]}, smolagents {found}", "", sep="\n" if "\n" in code else " ")
    changed |= found != observed or found == python[name]
raise SystemExit(changed)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
