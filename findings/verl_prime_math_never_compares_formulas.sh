#!/usr/bin/env bash
# verl 0.9.1: prime_math never compares two formulas as formulas; x^{2}+1 is wrong where 1+x^{2} is right.
#
# Expected: what is not equal as text or number is parsed and simplified, within a limit of time; the module imports
# sympy's LaTeX parser for that.
# Observed: the limit is used in a `with`, and is a decorator. Each `with` raises TypeError, which the lines around it
# take for a formula that cannot be parsed. So symbolic_equal says False to everything, sin(x)+1 and 1+sin(x) included,
# and no warning is given. Only formulas that an earlier step settles are right; that one leaves out all with ^{.
# With a `with` that works in place of the limit the same functions say True.
# What to do: grade formulas with math_verify.compute_score of the same package, by reward.custom_reward_function.path.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    numpy==2.3.5 sympy==1.14.0 pylatexenc==2.10 antlr4-python3-runtime==4.11.0
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/verl" verl==0.9.1
# verl's own __init__ wants a whole training environment, and so does its module of metrics: both are left out.
cat > "$folder/check.py" <<'PYTHON'
import contextlib
import sys
from types import ModuleType
from unittest import mock

for name in ("verl", "verl.utils", "verl.utils.reward_score", "verl.utils.metric"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [f"{sys.argv[1]}/{name.replace('.', '/')}"]
sys.modules["verl.utils.metric"].Metric = object

from verl.utils.reward_score.prime_math import compute_score, grader

PAIRS = [("x^{2}+1", "1+x^{2}"), (r"\sin(x)+1", r"1+\sin(x)"), (r"\frac{a}{b+c}", r"\frac{a}{c+b}"), ("2^{10}", "1024")]


def grade():
    return [compute_score(rf"It is \boxed{{{given}}}.", gold)[0] for given, gold in PAIRS]


if __name__ == "__main__":
    as_it_is = grade()
    same = grader.symbolic_equal("1", "1", 1e-4)
    with mock.patch.object(grader, "timeout_limit", lambda seconds: contextlib.nullcontext()):
        repaired = grade()
    print("verl 0.9.1, prime_math (expected: True for each pair)")
    for pair, first, second in zip(PAIRS, as_it_is, repaired):
        print(*pair, "as it is:", first, "with a limit that can stand in a `with`:", second)
    print("symbolic_equal of 1 and 1:", same)
    raise SystemExit(any(as_it_is) or same or not all(repaired))
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/verl"
