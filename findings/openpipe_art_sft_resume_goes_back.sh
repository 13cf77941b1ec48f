#!/usr/bin/env bash
# openpipe-art 0.5.23: SFT that is resumed at step 45 of 50 begins again at step 20.
#
# Expected: create_sft_dataset_iterator(initial_step=S) goes on at step S, the "global batch step to resume from", where
# S is the step of a chunk that an uninterrupted run yields.
# Observed: it skips S // chunk_size chunks. But a chunk ends with its epoch, so many have fewer steps: with 10 rows,
# batches of 2 and the default chunk of 10 each chunk is an epoch of 5 steps, and half as many are skipped as were
# trained. Rows train again, at a learning rate of long ago: 1.3e-4 in place of 1.8e-5. With 30 rows and 4 epochs,
# 6 of 8 steps lead to another one. In epochs of a multiple of chunk_size steps none does. Nothing warns.
# What to do: choose a chunk_size that divides the steps of an epoch (1 always does), or drop chunks below S yourself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile tqdm==4.70.1
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --ignore-requires-python --target "$folder/art" openpipe-art==0.5.23
# The module is loaded alone, with a stand-in for the class of settings that it fills: the package's own imports want a
# whole training environment, and Python 3.12.
cat > "$folder/check.py" <<'PYTHON'
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace

for name in ("art", "art.types"):
    sys.modules[name] = ModuleType(name)
sys.modules["art.types"].TrainSFTConfig = SimpleNamespace
spec = spec_from_file_location("sft", f"{sys.argv[1]}/art/utils/sft.py")
module = module_from_spec(spec)
spec.loader.exec_module(module)


def chunks(num_rows, epochs, initial_step=0):
    """Steps at which the chunks begin, and the learning rates there. Batches have two rows."""
    found = module.create_sft_dataset_iterator(
        list(range(num_rows)), epochs=epochs, initial_step=initial_step, show_progress=False
    )
    return [(chunk.step, chunk.config.learning_rate[0]) for chunk in found]


print("openpipe-art 0.5.23, create_sft_dataset_iterator, chunk_size=10, batches of 2")
wrong = {}
for num_rows, epochs in ((10, 10), (30, 4), (40, 4)):
    whole = chunks(num_rows, epochs)
    resumed = {step: chunks(num_rows, epochs, step)[0] for step, _ in whole}
    wrong[num_rows] = {step: found[0] for step, found in resumed.items() if found[0] != step}
    print(f"{num_rows} rows, {epochs} epochs: chunks begin at {[step for step, _ in whole]}")
    print(f"    resumed at another step than asked for (expected none): {wrong[num_rows]}")
    if num_rows == 10:
        print(f"    learning rate at step 45: {whole[-1][1]:.2g} uninterrupted, {resumed[45][1]:.2g} resumed")
expected = {15: 10, 25: 15, 30: 25, 40: 30, 45: 30, 55: 40}
raise SystemExit(wrong[10][45] != 20 or wrong[30] != expected or wrong[40] != {})
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/art"
