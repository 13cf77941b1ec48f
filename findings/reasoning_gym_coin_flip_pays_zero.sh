#!/usr/bin/env bash
# reasoning-gym 0.1.25: coin_flip pays 1.0 for the answer 0, and number_sorting pays 1.0 for other numbers.
#
# Expected: a wrong probability earns less than the right one. A sorted list of other numbers is wrong.
# Observed: coin_flip compares a wrong answer with the right one character by character. It divides the length that
# agrees by that of the shorter one. So the answer 0 agrees with 0.375 in its only character, and earns 1.0; "0.3" does,
# too. The answer 0 earns 1.0 in every entry whose probability is below 1, and a policy learns to write it. Of two close
# answers 0.376 earns 0.8. number_sorting takes each number that is off by up to 1. With all digits after the point
# gone, its list still earns 1.0.
# What to do: score coin_flip with Fraction and a tolerance of your own, and compare the whole list of number_sorting.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile reasoning-gym==0.1.25
cat > "$folder/check.py" <<'PYTHON'
import ast

import reasoning_gym

coins = reasoning_gym.create_dataset("coin_flip", size=200, seed=0)
entries = [entry for entry in coins if entry["answer"] != "1"]
zeros = sum(coins.score_answer("0", entry) == 1.0 for entry in entries)
entry = next(entry for entry in entries if entry["answer"] == "0.375")
marks = {text: round(coins.score_answer(text, entry), 2) for text in ("0.375", "3/8", "0", "0.3", "0.376", "0.5")}

sorting = reasoning_gym.create_dataset("number_sorting", size=200, seed=0, min_decimals=2, max_decimals=2)
cut = 0
for item in sorting:
    numbers = [str(int(float(text))) for text in ast.literal_eval(item["answer"])]
    cut += sorting.score_answer(str(numbers), item) == 1.0
print("reasoning-gym 0.1.25, coin_flip:", entry["question"], marks)
print(f"the answer 0 earns 1.0 in {zeros} of {len(entries)} entries whose probability is below 1 (expected: 0)")
print(f"number_sorting: numbers cut at the point earn 1.0 in {cut} of {len(sorting)} entries (expected: 0)")
raise SystemExit(zeros < len(entries) or marks["0"] != 1.0 or marks["0.376"] == 1.0 or cut < len(sorting) // 2)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
