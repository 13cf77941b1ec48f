#!/usr/bin/env bash
# Trinity-RFT 0.6.0: the selector by difficulty forgets all that it has learned when a run goes on.
#
# Expected: a checkpoint brings back which prompts would have been chosen next.
# Observed: state_dict of DifficultyBasedSelector holds current_index alone. What was learned of every prompt (alphas,
# betas, and the model's place between its two features) is not in it and in no other file. A selector that has
# chosen 100 batches and one that takes up its state choose 0 of 32 prompts alike. The second begins with 32 of which it
# knows nothing, and has to learn everything again. Nothing is said, and its docstring says where the estimates are.
# What to do: let runs with this selector not be interrupted, or save selector.diff_estimator beside the checkpoint.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile numpy==2.3.5 torch==2.13.0
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/trinity" trinity-rft==0.6.0
# The selectors' own two files are imported. What they import of the rest is for type hints and logging, and wants a
# whole training environment: names stand in for it.
cat > "$folder/check.py" <<'PYTHON'
import logging
import sys
from types import ModuleType, SimpleNamespace

import numpy as np

STAND_INS = {
    "trinity.buffer.reader.file_reader": {"_HFBatchReader": object},
    "trinity.common.config": {"DataSelectorConfig": object},
    "trinity.utils.annotations": {"Experimental": lambda found: found},
    "trinity.utils.log": {"get_logger": logging.getLogger},
}
for name in ("trinity", "trinity.buffer", "trinity.buffer.selector"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [f"{sys.argv[1]}/{name.replace('.', '/')}"]
for name, names in STAND_INS.items():
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(names)
from trinity.buffer.selector.selector import DifficultyBasedSelector

rates = np.random.default_rng(0).random(1000)  # pass rates of a thousand prompts
features = {"weak": (0.5 * rates).tolist(), "strong": rates.tolist()}
data = SimpleNamespace(dataset=features, dataset_size=1000)
config = SimpleNamespace(feature_keys=["weak", "strong"], kwargs={"target_reward": 0.5, "tau": 0}, seed=1)
first = DifficultyBasedSelector(data, config)
for _ in range(100):
    chosen = first.get_indices(32).tolist()
    first.feedback(chosen, rates[chosen].tolist())
state = first.state_dict()
resumed = DifficultyBasedSelector(data, config)
resumed.load_state_dict(state)
wanted, got = first.get_indices(32).tolist(), resumed.get_indices(32).tolist()
alike = len({*wanted} & {*got})
errors = [float(np.abs(rates[chosen] - 0.5).mean()) for chosen in (wanted, got)]
known = sorted({*resumed.diff_estimator.alphas, *resumed.diff_estimator.betas})
print("trinity-rft 0.6.0, state:", state)
print(f"chosen alike: {alike} of 32 (expected 32)")
print(f"distance of the pass rate from the 0.5 asked for: {errors[0]:.3f} without a break, {errors[1]:.3f} behind it")
print("counts of all prompts behind the break:", *known)
raise SystemExit(state != {"current_index": 3200} or alike != 0 or known != [1.0] or errors[1] < 10 * errors[0])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/trinity"
