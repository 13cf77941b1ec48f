#!/usr/bin/env bash
# tinker-cookbook 0.6.1: one closing brace too many, anywhere before the box, and a right answer earns nothing.
#
# Expected: the last \boxed{...} is looked for where it stands; braces of the text before do not matter.
# Observed: extract_boxed walks the whole response and raises at the first brace that closes nothing, so its caller takes
# the response for one without an answer. Small models write such braces often, as in \frac{1}{2}}. One that opens too
# much does no harm.
# What to do: look for the last "\boxed{" first and match braces from there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check sympy==1.14.0 pylatexenc==2.10
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps tinker-cookbook==0.6.1
cat > "$folder/check.py" <<'PYTHON'
from tinker_cookbook.recipes.math_rl.math_grading import extract_boxed


def found(text):
    try:
        return extract_boxed(text)
    except ValueError as error:
        return f"ValueError: {error}"


texts = [r"It is \boxed{5}", r"Half is {\frac{1}{2}. It is \boxed{5}", r"Half is \frac{1}{2}}. It is \boxed{5}"]
answers = [found(text) for text in texts]
print(dict(zip(texts, answers)))
raise SystemExit(answers[:2] != ["5", "5"] or not answers[2].startswith("ValueError"))
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
