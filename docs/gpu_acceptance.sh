#!/usr/bin/env bash
# What nobody could try without a GPU, tried: run this once on the machine that is to train, before the first run there.
#
#   docs/gpu_acceptance.sh                 every point; on one Hopper card at most a quarter of an hour, whatever hangs
#   docs/gpu_acceptance.sh reload ipc      only these
#   ENFORCE_EAGER=1 docs/gpu_acceptance.sh without compilation and CUDA graphs
#   DEVICE=cpu docs/gpu_acceptance.sh      what a CPU can try of it, to try these scripts
#   PYTHON=python3 docs/gpu_acceptance.sh  another Python than .venv/bin/python; LOGS=folder: other logs than acceptance/
#
# Prints PASS, FAIL, TIMEOUT or SKIP for each point, with what was measured or why; scripts/gpu_acceptance.py has the
# points. Everything that a point prints is in acceptance/<point>.log, and acceptance/summary.json has all results.
# Leaves with 1 where a point fails or runs into its limit, with 77 where all are skipped.
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/.."
python="${PYTHON:-.venv/bin/python}"
if ! command -v "$python" >/dev/null; then
    printf 'no Python at %s: name one by PYTHON=...\n' "$python" >&2
    exit 2
fi
exec "$python" scripts/run_points.py "$@"
