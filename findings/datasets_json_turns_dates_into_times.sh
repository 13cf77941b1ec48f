#!/usr/bin/env bash
# datasets 5.2.0: a column of JSON texts that look like dates comes back as times, so no answer equals "2024-01-31".
#
# Expected: what stands in quotes in a JSON file is a text in the data set, as with json.loads and Dataset.from_list.
# Observed: where all texts of a column look like dates, load_dataset("json") makes times of them. A reward that
# compares the answer "2024-01-31" with the column is 0 for all. With features that say string it is no better: the time
# is made first, and written as "2024-01-31 00:00:00". Of 12:00+02:00 the offset is lost: it becomes 10:00 of no time
# zone. One other text in the column, and all stay as they are: a part of a file has other values than the whole.
# Nothing warns.
# What to do: read the lines with json.loads and give them to Dataset.from_list.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile datasets==5.2.0
cat > "$folder/check.py" <<'PYTHON'
import json
import sys
from pathlib import Path

from datasets import Dataset, Features, Value, disable_progress_bars, load_dataset

disable_progress_bars()
folder = Path(sys.argv[1])


def answers(texts, **settings):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({"answer": text}) + "\n" for text in texts))
    return load_dataset("json", data_files=str(path), split="train", cache_dir=str(folder), **settings)["answer"][:]


dates = ["2024-01-31", "2023-12-01"]
times = ["2024-01-31T12:00:00+02:00"]
columns = {
    "dates": answers(dates),
    "a time with an offset": answers(times),
    "dates and a word": answers([*dates, "unknown"]),
    "dates, features given": answers(dates, features=Features({"answer": Value("string")})),
    "dates, from_list": Dataset.from_list([{"answer": text} for text in dates])["answer"][:],
}
print("datasets 5.2.0 (expected: texts, as they were given)")
for name, column in columns.items():
    print(f"{name}: {column}")
turned, moved, mixed, given, listed = columns.values()
kept = list(mixed)[:2] == list(listed) == dates
turned_to = [str(column[0]) for column in (turned, given, moved)]
raise SystemExit(not kept or turned_to != ["2024-01-31 00:00:00", "2024-01-31 00:00:00", "2024-01-31 10:00:00"])
PYTHON
HF_HOME="$folder/hf" "$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder"
