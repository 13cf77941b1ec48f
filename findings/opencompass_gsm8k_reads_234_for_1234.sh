#!/usr/bin/env bash
# opencompass 0.5.4: its GSM8K reads "$1,234" as 234, and "5,018" is right where 18 is. Its MATH cuts 3.14 to 3.
#
# Expected: a comma between thousands belongs to the number; those of the gold answers are taken out. A full stop inside
# of a number is a point.
# Observed: gsm8k_postprocess takes the last run of digits. The gold answer 1234 is never right where a model writes a
# comma, as chat models do; 5,018 passes for 18. A response without a box is cut at each full stop by
# math_postprocess_v2. Of "The final answer is 3.14" it reads 3, wrong for 3.14 and right for 3. No decimal number is
# ever right there.
# What to do: ask for \boxed{} with math_postprocess_v2, or take commas out of the responses first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/package" opencompass==0.5.4
# The functions and evaluators are loaded alone: the package's own imports want a whole evaluation environment.
cat > "$folder/check.py" <<'PYTHON'
import ast
import re
import sys
from pathlib import Path


class Base:
    def __init__(self, **settings):
        pass


def definitions(path):
    """Returns the names of a module that need none of its imports but re, without decorators."""
    space = {"re": re, "BaseEvaluator": Base}
    for node in ast.parse(Path(sys.argv[1], path).read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.endswith("Dataset"):
            node.decorator_list = []
            exec(compile(ast.Module([node], []), path, "exec"), space)
    return space


gsm8k = definitions("opencompass/datasets/gsm8k.py")
maths = definitions("opencompass/datasets/math.py")
SETS = {
    "gsm8k": (
        gsm8k["gsm8k_postprocess"],
        gsm8k["Gsm8kEvaluator"]().is_equal,
        lambda gold: gsm8k["gsm8k_dataset_postprocess"](f"#### {gold}"),
    ),
    "math": (maths["math_postprocess_v2"], maths["MATHEvaluator"](version="v2").is_equiv, str),
}
CASES = [
    ("gsm8k", "The answer is 1234.", "1,234", True),
    ("gsm8k", "The answer is $1,234.", "1,234", False),
    ("gsm8k", "The answer is 5,018.", "18", True),
    ("math", r"The final answer is \boxed{3.14}.", "3.14", True),
    ("math", "The final answer is 3.14.", "3.14", False),
    ("math", "The final answer is 3.14.", "3", True),
]
changed = False
print("opencompass 0.5.4: set, response, gold answer, read as, right")
for name, response, gold, observed in CASES:
    read, equal, gold_of = SETS[name]
    found = equal(read(response), gold_of(gold))
    print(name, response, gold, read(response), found, sep=" | ")
    changed |= found != observed
raise SystemExit(changed)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/package"
