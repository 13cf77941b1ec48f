#!/usr/bin/env bash
# reasoning-gym 0.1.25: its endless stream asks the same questions in each chunk, as data sets of neighbouring seeds do.
#
# Expected: `ReseedingDataset`, which makes a data set endless by a new seed for each chunk, asks as many different
# questions as one data set of that length does: 2,000 entries of leg_counting at size=2000 are 2,000 questions.
# Observed: four chunks of 500 hold 503 questions. Chunk n has seed + n, and entry i is made from seed + i, so a chunk
# is the one before it, moved by one entry, with a single new question at its end. By the same sum two data sets with
# the seeds 1 and 2, one to train on and one held out, say, share 499 of 500 questions. Nothing warns.
# What to do: make one data set of the full length, and take seeds that are further apart than their sizes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile reasoning_gym==0.1.25
cat > "$folder/check.py" <<'PYTHON'
from importlib.metadata import version
from itertools import islice

import reasoning_gym
from reasoning_gym.dataset import ReseedingDataset


def make(seed, size):
    return reasoning_gym.create_dataset("leg_counting", seed=seed, size=size)


def num_different(entries):
    return len({entry["question"] for entry in islice(iter(entries), 2000)})


at_once = num_different(make(42, 2000))
stream = num_different(ReseedingDataset(make(42, 500), chunk_size=500))
shared = len({entry["question"] for entry in make(1, 500)} & {entry["question"] for entry in make(2, 500)})
print("reasoning-gym", version("reasoning_gym"), "(expected: 2000, 2000, and few or none)")
print("different questions of 2,000 entries, one data set:", at_once)
print("different questions of 2,000 entries, four chunks of the endless stream:", stream)
print("questions that the seeds 1 and 2 share, of 500:", shared)
raise SystemExit((at_once, stream, shared) != (2000, 503, 499))
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
