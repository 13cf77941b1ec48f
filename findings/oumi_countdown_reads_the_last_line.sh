#!/usr/bin/env bash
# oumi 0.9: its countdown reward looks at the last line alone, so a line break behind the answer costs everything.
#
# Expected: the last <answer>...</answer> of a response counts, with a line break behind it or inside of it.
# Observed: what follows the last line break is searched, and nothing else. A right answer that ends with a line break
# earns 0, as a wrong one does. So do one with a word on the line behind it, and one whose tags stand on lines of their
# own. On one line the same response earns 1. "(1 + 2) * 4 = 12" inside of the tags earns 0, too: the 12 counts as a
# number that was not given. Chat models write all of these.
# What to do: cut the response behind its last </answer>, and take line breaks out, before it is graded.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/package" oumi==0.9
# The module is loaded alone: the package around it wants a whole training environment. Registering does nothing here.
cat > "$folder/check.py" <<'PYTHON'
import contextlib
import io
import runpy
import sys
from types import ModuleType, SimpleNamespace

for name in ("oumi", "oumi.core", "oumi.core.registry"):
    sys.modules[name] = ModuleType(name)
sys.modules["oumi.core.registry"].RegistryType = SimpleNamespace(REWARD_FUNCTION=None)
sys.modules["oumi.core.registry"].register = lambda *names: lambda function: function
reward = runpy.run_path(f"{sys.argv[1]}/oumi/datasets/grpo/rewards/countdown_rewards.py")["countdown_reward"]

CASES = [
    ("So <answer>(1 + 2) * 4</answer>", 1.0),
    ("So <answer>1 + 2 + 4</answer>", 0),
    ("So <answer>(1 + 2) * 4</answer>\n", 0),
    ("So <answer>(1 + 2) * 4</answer>\nDone.", 0),
    ("<answer>\n(1 + 2) * 4\n</answer>", 0),
    ("So <answer>(1 + 2) * 4 = 12</answer>", 0),
]
changed = False
print("oumi 0.9, countdown: 12 from 1, 2 and 4 (expected: 1.0 for all but the second)")
for response, observed in CASES:
    with contextlib.redirect_stdout(io.StringIO()):
        found = reward("countdown", response, {"target": 12, "numbers": [1, 2, 4]}, {})
    print(repr(response), found)
    changed |= found != observed
raise SystemExit(changed)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/package"
