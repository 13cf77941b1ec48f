#!/usr/bin/env bash
# textarena 0.7.4: the seed of a game seeds the whole process, and games in one process disturb each other.
#
# Expected: reset(seed=7) and the same moves give the same game, whatever else the process does. A seed is the game's own.
# Observed: reset seeds the module `random`, and games go on drawing from it. A game of 2048 in whose turns another game
# is reset gets other tiles for the same moves. A loop that resets games with a fixed seed and draws its batches from
# `random` draws the same batch in every step. verifiers 0.4.0 seeds and resets without a pause, but its rollouts take
# their turns side by side, so this holds there too.
# What to do: one process for each game; or keep random.getstate() with the game and set it before each turn. Draw your
# own batches from a random.Random of your own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check textarena==0.7.4
cat > "$folder/check.py" <<'PYTHON'
import random

import textarena


def started(name, seed):
    game = textarena.make(name)
    game.reset(num_players=1, seed=seed)
    return game


def boards(beside):
    game, seen = started("2048-v0-raw", 7), []
    for move in ("[Up]", "[Left]", "[Up]", "[Left]", "[Down]"):
        if beside:
            started("2048-v0-raw", 99)
        game.step(move)
        seen.append([list(row) for row in game.state.game_state["board"]])
    return seen


alone_is_alike = boards(False) == boards(False)
beside_is_alike = boards(False) == boards(True)
batches = []
for _ in range(3):
    started("GuessTheNumber-v0-raw", 5)
    batches.append(random.sample(range(1000), 3))
print("2048, the same seed and moves: alone alike", alone_is_alike, "- beside another game alike", beside_is_alike)
print("batches of three steps:", batches)
raise SystemExit(not alone_is_alike or beside_is_alike or batches[0] != batches[1] or batches[1] != batches[2])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py"
