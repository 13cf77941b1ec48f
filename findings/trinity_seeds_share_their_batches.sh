#!/usr/bin/env bash
# Trinity-RFT 0.6.0: with the random selector, runs with the seeds 0 and 32 draw the same batches, one step apart.
#
# Expected: runs with different seeds see different batches.
# Observed: a batch is drawn by a generator of seed + number of prompts drawn before. With batches of 32, the seeds 0, 32,
# 64, ... give one sequence of batches that begins at another place: 9 of the first 10 are the same. The shuffled
# selector adds the epoch to the seed: the second epoch of seed 0 is the first of seed 1. So runs over seeds 0 to 4 share
# most of their orders, and an interval over them is too narrow.
# What to do: take seeds that are far apart and no multiples of the batch size, such as 1000003, 2000029.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile numpy==2.3.5 torch==2.13.0
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/trinity" trinity-rft==0.6.0
# The selectors' own two files are imported. What they import of the rest is for type hints and logging, and wants a
# whole training environment: names stand in for it.
cat > "$folder/check.py" <<'PYTHON'
import logging
import sys
from types import ModuleType, SimpleNamespace

import numpy as np

STAND_INS = {
    "trinity.buffer.reader.file_reader": {"_HFBatchReader": object},
    "trinity.common.config": {"DataSelectorConfig": object},
    "trinity.utils.annotations": {"Experimental": lambda found: found},
    "trinity.utils.log": {"get_logger": logging.getLogger},
}
for name in ("trinity", "trinity.buffer", "trinity.buffer.selector"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [f"{sys.argv[1]}/{name.replace('.', '/')}"]
for name, names in STAND_INS.items():
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(names)
from trinity.buffer.selector.selector import RandomSelector, ShuffleSelector

data = SimpleNamespace(dataset_size=1000)


def batches(kind, seed, number, size):
    """The first batches of a run."""
    selector = kind(data, SimpleNamespace(seed=seed))
    return [list(map(int, selector.get_indices(size))) for _ in range(number)]


pairs = [batches(RandomSelector, seed, 10, 32) for seed in (0, 32)]
same = sum(batch in pairs[0] for batch in pairs[1])
epochs = [batches(ShuffleSelector, seed, 20, 100) for seed in (0, 1)]
is_shifted = epochs[0][10:] == epochs[1][:10]
print(f"trinity-rft 0.6.0, random, batches of 32: {same} of the first 10 are the same with the seeds 0 and 32 (expected 0)")
print("shuffled: the second epoch of seed 0 is the first of seed 1:", is_shifted, "(expected False)")
raise SystemExit(same != 9 or not is_shifted)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/trinity"
