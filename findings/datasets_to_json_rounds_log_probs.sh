#!/usr/bin/env bash
# datasets 5.2.0: to_json keeps ten digits after the point, so a small probability becomes 0 and its log -infinity.
#
# Expected: Dataset.to_json writes a number so that it is read again as it was, as json.dumps and to_parquet do.
# Observed: each batch is written by pandas, which rounds to ten digits after the point. 3e-11 comes back as 0.0, and
# 1e-6 / 3 as 3.333e-07. Of -0.12345678901234567 seven digits are gone. Columns of lists are rounded, too. Saved
# probabilities of rare tokens are lost, and ratios of two of them are wrong. Nothing warns. double_precision=15, the
# most that pandas allows, helps larger numbers; 3e-20 is 0.0 all the same.
# What to do: save rollouts with to_parquet, or write json.dumps of the rows yourself; save logarithms.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile datasets==5.2.0
cat > "$folder/check.py" <<'PYTHON'
import json
import sys
from pathlib import Path

from datasets import Dataset, disable_progress_bars

disable_progress_bars()
values = [0.25, 3e-11, 1e-6 / 3, -0.12345678901234567]
path = Path(sys.argv[1], "rows.jsonl")


def through_json(**settings):
    Dataset.from_dict({"p": values, "list": [values] * len(values)}).to_json(path, **settings)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[0]["list"] == [row["p"] for row in rows]
    return [row["p"] for row in rows]


default, most = through_json(), through_json(double_precision=15)
parquet = path.with_suffix(".parquet")
Dataset.from_dict({"p": values}).to_parquet(parquet)
whole = Dataset.from_parquet(str(parquet), cache_dir=sys.argv[1])["p"][:]
print("datasets 5.2.0")
for name, found in (("given", values), ("json", default), ("json, 15 digits", most), ("parquet", whole)):
    print(f"{name}: {found}")
raise SystemExit(default[1] != 0.0 or default[2] == values[2] or default[3] == values[3] or list(whole) != values)
PYTHON
HF_HOME="$folder/hf" "$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder"
