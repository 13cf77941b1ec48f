#!/usr/bin/env bash
# verl 0.9.1, skyrl-gym 0.4.0: the reward of Search-R1 takes 15 for 1.5, and an empty answer for A.
#
# Expected: exact match forgives case, articles and the punctuation around an answer. A number keeps its point and its
# sign, and an answer is never nothing.
# Observed: punctuation is deleted inside of numbers too, so 15 is right where 1.5 is, 5 where -5 is, 2024 where 20.24
# is. The articles go even where they are the name: "Vitamin" is right for Vitamin A. Of the answer A (a blood group, a
# note, a choice) nothing is left, so <answer></answer> earns 1.0, and so does <answer>the</answer>.
# What to do: keep answers that are numbers with a point or sign, or single letters, out of data that is graded so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/packages" verl==0.9.1 skyrl-gym==0.4.0
# The modules are loaded alone: the packages' own imports want more than this needs.
cat > "$folder/check.py" <<'PYTHON'
import contextlib
import io
import runpy
import sys

FILES = {
    "verl": "verl/utils/reward_score/search_r1_like_qa_em.py",
    "skyrl-gym": "skyrl_gym/envs/search/utils.py",
}
CASES = [("15", "1.5"), ("5", "-5"), ("2024", "20.24"), ("Vitamin", "Vitamin A"), ("", "A"), ("the", "A")]
OTHERS = [("1.6", "1.5"), ("B", "A"), ("the Beatles", "Beatles")]

found = {}
for package, path in FILES.items():
    score = runpy.run_path(f"{sys.argv[1]}/{path}")["compute_score"]
    with contextlib.redirect_stdout(io.StringIO()):  # it prints one call in 64
        found[package] = [score(f"<answer>{given}</answer>", {"target": [gold]}) for given, gold in CASES + OTHERS]
print("given, gold: score in", ", ".join(FILES), "(expected: 0 but for the last)")
for case, scores in zip(CASES + OTHERS, zip(*found.values())):
    print(case, *scores)
raise SystemExit(any(scores != [1.0] * 6 + [0.0, 0.0, 1.0] for scores in found.values()))
PYTHON
"$folder/venv/bin/python" "$folder/check.py" "$folder/packages"
