#!/usr/bin/env bash
# verl 0.9.1, skyrl-gym 0.4.0, lm-eval 0.4.13: Minerva's rules delete the variable a, and all solutions but the last.
#
# Expected: tidying up an answer before it is compared leaves its letters and its solutions alone; "a dog" is a "dog".
# Observed: "a" before a space is deleted wherever it stands. 3a + b becomes 3+b, so "3 + b" is right where 3a + b is,
# "+ b" where a + b is; without spaces, 3a+b, it is kept. Of "x = 5 or x = 7" only what follows the last = is compared,
# so 7 alone is right, as is 3 for "a = 4, b = 3", and "x = 7 or x = 5" is wrong. The three packages have a copy each:
# verl's math_dapo (data sets math_dapo and aime*), SkyRL's environment aime, and lm-eval's minerva_math.
# What to do: keep problems whose answer has a variable a, or more than one =, out of data that is graded so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/packages" verl==0.9.1 skyrl-gym==0.4.0 lm-eval==0.4.13
# The functions are loaded alone: the packages' own imports want a whole training or evaluation environment.
cat > "$folder/check.py" <<'PYTHON'
import ast
import re
import sys
from pathlib import Path

FILES = {
    "verl": "verl/utils/reward_score/math_dapo.py",
    "skyrl-gym": "skyrl_gym/envs/aime/utils.py",
    "lm-eval": "lm_eval/tasks/minerva_math/utils.py",
}
NAMES = {"SUBSTITUTIONS", "REMOVED_EXPRESSIONS", "normalize_final_answer"}
CASES = [("3 + b", "3a + b"), ("+ b", "a + b"), ("7", "x = 5 or x = 7"), ("3", "a = 4, b = 3")]
OTHERS = [("3+b", "3a+b"), ("x = 7 or x = 5", "x = 5 or x = 7"), ("dog", "a dog")]


def name_of(node):
    return getattr(node, "name", None) or getattr(getattr(node, "targets", [None])[0], "id", None)


def normaliser(path):
    body = [node for node in ast.parse(Path(sys.argv[1], path).read_text()).body if name_of(node) in NAMES]
    space = {"re": re}
    exec(compile(ast.Module(body, []), path, "exec"), space)
    return space["normalize_final_answer"]


found = {}
for package, path in FILES.items():
    tidy = normaliser(path)
    found[package] = [tidy(given) == tidy(gold) for given, gold in CASES + OTHERS]
print("given, gold: right in", ", ".join(FILES), "(expected: the first four False, the last True)")
for case, answers in zip(CASES + OTHERS, zip(*found.values())):
    print(case, *answers)
raise SystemExit(any(answers != [True] * 4 + [False, False, True] for answers in found.values()))
PYTHON
"$folder/venv/bin/python" "$folder/check.py" "$folder/packages"
