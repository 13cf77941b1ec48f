#!/usr/bin/env bash
# What nobody could try without a GPU, tried: run this once on the machine that is to train, before the first run there.
#
#   docs/gpu_acceptance.sh                 every point, in a quarter of an hour on one GPU
#   docs/gpu_acceptance.sh reload ipc      only these
#   PYTHON=python3 docs/gpu_acceptance.sh  another Python than .venv/bin/python; LOGS=folder: other logs than acceptance/
#
# Prints PASS, FAIL or SKIP for each point, with what was measured or why it was left out; the points are explained in
# scripts/gpu_acceptance.py. Everything a point prints is in acceptance/<point>.log. Leaves with status 1 where one FAILs.
set -u

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
all_points=(hardware engine reload process ipc nccl sleep_1 sleep_2 ray run sleeping_run fsdp paper)
points=("$@")
if [ "$#" -eq 0 ]; then
    points=("${all_points[@]}")
fi
python="${PYTHON:-.venv/bin/python}"
if ! command -v "$python" >/dev/null; then
    printf 'no Python at %s: name one by PYTHON=...\n' "$python" >&2
    exit 2
fi
logs="${LOGS:-acceptance}"
export LOGS="$logs"
mkdir -p "$logs"

skip_status=77
no_gpu=""
num_failed=0

report() {  # status, point, seconds, reason
    printf '%-5s %-13s %4ss  %s\n' "$1" "$2" "$3" "$4"
}

for point in "${points[@]}"; do
    if [ -n "$no_gpu" ]; then
        report SKIP "$point" 0 "$no_gpu"
        continue
    fi
    started=$SECONDS
    log="$logs/$point.log"
    timeout --kill-after=30 2400 "$python" scripts/gpu_acceptance.py "$point" >"$log" 2>&1
    status=$?
    reason="$(grep '^RESULT: ' "$log" | tail -n 1)"
    reason="${reason#RESULT: }"
    seconds=$((SECONDS - started))
    if [ "$status" -eq 0 ] && [ -n "$reason" ]; then
        report PASS "$point" "$seconds" "$reason"
    elif [ "$status" -eq "$skip_status" ]; then
        report SKIP "$point" "$seconds" "${reason:-no reason given}"
        if [ "$point" = hardware ]; then
            no_gpu="$reason"
        fi
    else
        report FAIL "$point" "$seconds" "${reason:-left with status $status}; see $log"
        num_failed=$((num_failed + 1))
    fi
done

if [ "$num_failed" -gt 0 ]; then
    printf '%d of %d points FAILED\n' "$num_failed" "${#points[@]}"
    exit 1
fi
