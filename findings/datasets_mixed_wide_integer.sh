#!/usr/bin/env bash
# datasets 5.2.0: one integer above 64 bits turns every other value of a mixed column into text.
#
# Expected: `Dataset.from_list(rows, on_mixed_types="use_json")` gives back the values it was given, whatever stands in
# the other rows: True as True, a list as a list. An integer that Arrow cannot hold is refused, or kept as the one text.
# Observed: with a last value up to 2**64 - 1 that holds. With 2**64 the whole column is encoded twice: True comes back
# as the text 'true', ["7"] as the text '["7"]'. Nothing is raised or warned of.
# What to do: store such integers as text yourself, before the data set is made.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check datasets==5.2.0
cat > "$folder/check.py" <<'PYTHON'
from datasets import Dataset


def read(last):
    rows = [{"answer": True}, {"answer": ["7"]}, {"answer": last}]
    made = Dataset.from_list(rows, on_mixed_types="use_json")
    return [row["answer"] for row in made]


narrow, wide = read(2**64 - 1), read(2**64)
print("largest 2**64 - 1:", narrow)
print("largest 2**64:    ", wide)
raise SystemExit(narrow[:2] != [True, ["7"]] or wide[:2] != ["true", '["7"]'])
PYTHON
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" "$folder/check.py"
