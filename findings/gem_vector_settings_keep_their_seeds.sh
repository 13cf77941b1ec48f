#!/usr/bin/env bash
# gem-llm 0.1.0: make_vec writes its seeds into the settings that it is given, so evaluation plays the training's tasks.
#
# Expected: `make_vec(..., seed=S)` gives the i-th environment the seed S + i where its settings name none. The same
# settings with seed=1 and with seed=1000 make environments with different tasks.
# Observed: the first call adds the seeds to the dictionaries of `vec_kwargs`, which are the caller's. The second finds
# them there and keeps them: with seed=1000 it has the seeds 1 to 4, and asks the very questions of the first. With one
# dictionary for all (`[settings] * 4`) all four environments have the first one's seed and ask the same question.
# What to do: give every call a deep copy of the settings.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile reasoning_gym==0.1.23
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps gem-llm==0.1.0
cat > "$folder/check.py" <<'PYTHON'
import contextlib
import io
from importlib.metadata import version

import gem

NAMES = ["rg:leg_counting"] * 4


def begin(seed, settings):
    """Seeds of four environments and what they ask first."""
    with contextlib.redirect_stdout(io.StringIO()):
        made = gem.make_vec(NAMES, vec_kwargs=settings, seed=seed)
    return [one.seed for one in made.envs], made.reset()[0]


settings = [{"size": 100} for _ in NAMES]
(train_seeds, train), (other_seeds, other) = begin(1, settings), begin(1000, settings)
print("gem-llm", version("gem-llm"), "(expected: 1 to 4, 1000 to 1003, other questions; four of them)")
print("seed=1:   ", train_seeds)
print("seed=1000:", other_seeds, "with the same settings; the same questions:", train == other)
one_for_all, asked = begin(1, [{"size": 100}] * 4)
print("one dictionary for all four:", one_for_all, "different questions:", len(set(asked)))
fresh = begin(1000, [{"size": 100} for _ in NAMES])[0]
print("seed=1000 with new settings:", fresh)
expected = ([1, 2, 3, 4], [1, 2, 3, 4], True, [1, 1, 1, 1], 1, [1000, 1001, 1002, 1003])
raise SystemExit((train_seeds, other_seeds, train == other, one_for_all, len(set(asked)), fresh) != expected)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
