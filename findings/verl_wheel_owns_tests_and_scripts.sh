#!/usr/bin/env bash
# verl 0.9.1: its wheel installs packages named `tests` and `scripts` beside `verl`.
#
# Expected: a wheel puts one package of its own name into site-packages, and leaves names that every project has alone.
# Observed: `tests` and `scripts` of site-packages are verl's. A project's own `tests` folder without an `__init__.py` is
# a namespace package, and loses to them wherever it stands on the path: even in the project's own folder,
# `import tests.mine` ends in ModuleNotFoundError. Without verl the same import works.
# What to do: give the folder an `__init__.py`, or install verl into a folder that is put on the path last.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
mkdir -p "$folder/project/tests"
echo "VALUE = 1" > "$folder/project/tests/mine.py"
cd "$folder/project"
try() { "$folder/venv/bin/python" -c "import tests.mine; print('works')" 2>&1 | tail -1 | cut -d: -f1 || true; }
before=$(try)
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps verl==0.9.1
after=$(try)
names=$(cd "$folder"/venv/lib/python3*/site-packages && ls -d scripts tests verl | tr '\n' ' ')
echo "before: $before; after: $after; installed: $names"
[ "$before" = works ] && [ "$after" = ModuleNotFoundError ] && [ "$names" = "scripts tests verl " ]
