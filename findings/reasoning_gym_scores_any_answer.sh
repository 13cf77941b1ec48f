#!/usr/bin/env bash
# reasoning-gym 0.1.25: two tasks give full marks to answers of other questions.
#
# Expected: score_answer gives 1.0 to a right answer of the entry that it is asked about, and less to others.
# Observed: game_of_life_halting gives 1.0 to "False" where "True" is right, and to any other text that is not empty: it
# compares the truth of two texts. puzzle24 gives 1.0 to an expression that makes 24 from other numbers than the
# puzzle's: it counts the numbers and checks their range. So one fixed text solves every puzzle, and a policy that is
# trained with either verifier finds a constant answer.
# What to do: compare the text of game_of_life_halting with the entry's answer; of puzzle24 compare the sorted numbers of
# the expression with metadata["numbers"] too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check reasoning_gym==0.1.25
cat > "$folder/check.py" <<'PYTHON'
import reasoning_gym

halting = reasoning_gym.create_dataset("game_of_life_halting", size=20, seed=7)
opposite = {"True": "False", "False": "True"}
wrong = [halting.score_answer(opposite[entry["answer"]], entry) for entry in halting]
print("game_of_life_halting, the opposite of the right answer:", sorted(set(wrong)))

puzzles = reasoning_gym.create_dataset("puzzle24", size=20, seed=7)
fixed = "6*(1 + 6 - 3)"
others = [entry for entry in puzzles if sorted(entry["metadata"]["numbers"]) != [1, 3, 6, 6]]
scores = [puzzles.score_answer(fixed, entry) for entry in others]
print(f"puzzle24, {fixed} for {len(others)} puzzles with other numbers:", sorted(set(scores)))
raise SystemExit(set(wrong) != {1.0} or set(scores) != {1.0})
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
