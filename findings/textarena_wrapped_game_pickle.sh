#!/usr/bin/env bash
# textarena 0.7.4: a game as `make` returns it cannot be pickled, its "-raw" variant can.
#
# Expected: a game goes to a worker process (multiprocessing, Ray, a replay buffer) as any object does. `copy.deepcopy`
# of the same game works, so nothing in it forbids a copy.
# Observed: `pickle.loads(pickle.dumps(game))` and `copy.copy(game)` end in RecursionError for GuessTheNumber-v0, whose
# default wrapper looks attributes up in a member that an object under construction does not have yet. The same game
# without its wrapper, GuessTheNumber-v0-raw, passes both.
# What to do: make the game in the process that plays it, or pickle the raw variant and wrap it there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check textarena==0.7.4
cat > "$folder/check.py" <<'PYTHON'
import copy
import pickle

import textarena


def outcome(action):
    try:
        action()
    except RecursionError:
        return "RecursionError"
    return "works"


found = {}
for name in ("GuessTheNumber-v0", "GuessTheNumber-v0-raw"):
    game = textarena.make(name)
    found[name] = (
        outcome(lambda: copy.deepcopy(game)),
        outcome(lambda: copy.copy(game)),
        outcome(lambda: pickle.loads(pickle.dumps(game))),
    )
    print(name, "deepcopy, copy, pickle:", *found[name])
expected = {
    "GuessTheNumber-v0": ("works", "RecursionError", "RecursionError"),
    "GuessTheNumber-v0-raw": ("works", "works", "works"),
}
raise SystemExit(found != expected)
PYTHON
"$folder/venv/bin/python" "$folder/check.py"
