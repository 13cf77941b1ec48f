#!/usr/bin/env bash
# math-verify 0.9.0: 5 is right where x+y=5 is, (7,3) where x=3, y=7 is, and {3,7} where 3<x<7 is.
#
# Expected: the right side alone stands for an equation only where that gives a variable its value, x=5. A pair has the
# order of its variables. The numbers at the ends of an open interval are not the interval.
# Observed: each left side of plain letters counts as the name of a variable, also a sum or a product: 5 is right for
# x+y=5, 6 for xy=6, 10 for a+b+c=10. (For 2x+3y=12 it is not, and a comment in the code says so of 2x+z=1.) The
# equations x=3, y=7 become the set of 3 and 7, which is compared with (7,3) in any order. For the gold answer (3,7) the
# response y=3, x=7 is right, since it is written in that order. 3<x<7 becomes (3,7), and that is compared with a set as
# the pair of its ends. TRL's accuracy_reward pays 1.0 for all of these, too.
# What to do: take gold answers that are equations of several letters, pairs written as equations, or open intervals out
# of the data; or write pairs as (3,7).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    math-verify==0.9.0 latex2sympy2_extended==1.11.0 sympy==1.14.0
cat > "$folder/check.py" <<'PYTHON'
from importlib.metadata import version

from math_verify import parse, verify

CASES = [  # gold, answer, expected, observed
    ("x=5", "5", True, True),
    ("x+y=5", "x+y=5", True, True),
    ("x+y=5", "x+y=7", False, False),
    ("2x+3y=12", "12", False, False),
    ("x+y=5", "5", False, True),
    ("xy=6", "6", False, True),
    ("a+b+c=10", "10", False, True),
    ("x=3, y=7", "x=7, y=3", False, False),
    ("x=3, y=7", "(3,7)", True, True),
    ("x=3, y=7", "(7,3)", False, True),
    ("(3,7)", "x=7, y=3", False, False),
    ("(3,7)", "y=3, x=7", False, True),
    ("[3,7]", r"\{3,7\}", False, False),
    ("3<x<7", r"\{3,7\}", False, True),
]
found = []
print("math-verify", version("math-verify"))
for gold, answer, expected, _ in CASES:
    found.append(verify(*(parse(rf"\boxed{{{text}}}") for text in (gold, answer))))
    print(f"{answer} for {gold}: expected {expected}, found {found[-1]}")
raise SystemExit(found != [case[-1] for case in CASES])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
