#!/usr/bin/env bash
# agentevals 0.0.9: arguments that may be a "superset" have to be a subset in mode subset, and equal in mode unordered.
#
# Expected: tool_args_match_mode="superset" takes a call that has the reference's arguments and more, in each mode for
# trajectories.
# Observed: mode subset swaps output and reference, and so the arguments. A call with an argument too many is refused,
# and one with an argument too few is taken. Mode unordered compares both ways, so "superset" and "subset" take equal
# arguments only. A function of one's own for a tool gets its two arguments in the same wrong order.
# What to do: take openevals 0.2.2, where the same evaluators keep the order.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    agentevals==0.0.9 openevals==0.1.0
cat > "$folder/check.py" <<'PYTHON'
import json

from agentevals.trajectory.match import create_trajectory_match_evaluator


def trajectory(**arguments):
    call = {"id": "1", "type": "function", "function": {"name": "search", "arguments": json.dumps(arguments)}}
    return [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [call]}]


reference = trajectory(query="x")
outputs = {"more": trajectory(query="x", limit=3), "less": trajectory(), "equal": reference}
found = {}
for mode in ("strict", "superset", "subset", "unordered"):
    evaluator = create_trajectory_match_evaluator(trajectory_match_mode=mode, tool_args_match_mode="superset")
    found[mode] = [
        bool(evaluator(outputs=output, reference_outputs=reference)["score"]) for output in outputs.values()
    ]
print('agentevals 0.0.9, tool_args_match_mode="superset": arguments', *outputs, "(expected: True, False, True)")
for mode, scores in found.items():
    print(f"{mode}:", *scores)
usual = [True, False, True]
observed = {"strict": usual, "superset": usual, "subset": [False, True, True], "unordered": [False, False, True]}
raise SystemExit(found != observed)
PYTHON
LANGSMITH_TRACING=false "$folder/venv/bin/python" -W ignore "$folder/check.py"
