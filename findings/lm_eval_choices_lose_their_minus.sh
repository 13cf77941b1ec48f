#!/usr/bin/env bash
# lm-eval 0.4.13: its filter of multiple choice takes 2 for -2, 1.5 for 15, and the "no" in "know" for the choice No.
#
# Expected: a response that names a choice by its text is that choice, and a word counts only as a whole. Punctuation is
# left out where that tells no two choices apart.
# Observed: with ignore_punctuation, as the tasks mmlu_flan_cot_zeroshot and gpqa set it, "-" and "." are deleted from
# choices and response. Choices that become equal are the later one: "The answer is 2." is (B) where the choices are 2
# and -2. The text of a choice is found inside of words and numbers, and the last one found counts: "Yes, as far as I
# know" is No, "125" is the choice 25. "The answer is B." is invalid, or the choice that its last letter is.
# Nothing warns. All this where the response has no (A) in brackets.
# What to do: ask for the letter in brackets, and count how many responses have one before you trust the accuracy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile numpy==2.3.5
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile lm-eval==0.4.13
cat > "$folder/check.py" <<'PYTHON'
from importlib.metadata import version

from lm_eval.filters.extraction import MultiChoiceRegexFilter

# As mmlu_flan_cot_zeroshot and gpqa_*_cot_* set it.
choose = MultiChoiceRegexFilter(r"(\([A-Z]\))", group_select=-1, ignore_case=True, ignore_punctuation=True)
CITIES = ["Paris", "Rome", "Oslo", "Bern"]
CASES = [
    ("The answer is 2.", ["2", "-2"], "(A)", "(B)"),
    ("The answer is 1.5.", ["1.5", "15"], "(A)", "(B)"),
    ("Yes, as far as I know.", ["Yes", "No"], "(A)", "(B)"),
    ("The answer is 125.", ["25", "100", "50", "75"], "[invalid]", "(A)"),
    ("The answer is B.", CITIES, "(B)", "[invalid]"),
    ("The answer is B, a good one.", ["a", "b", "c", "d"], "(B)", "(D)"),
    ("It is Rome.", CITIES, "(B)", "(B)"),
    ("The answer is (B).", CITIES, "(B)", "(B)"),
]
found = []
print("lm-eval", version("lm_eval"), "multi_choice_regex")
for response, choices, expected, _ in CASES:
    found.append(choose.apply([[response]], [{"choices": choices}])[0][0])
    print(f"{response!r} of {choices}: expected {expected}, found {found[-1]}")
raise SystemExit(found != [observed for *_, observed in CASES])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
