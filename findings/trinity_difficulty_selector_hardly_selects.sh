#!/usr/bin/env bash
# Trinity-RFT 0.6.0: the selector by difficulty hardly selects with its defaults, and prefers solved prompts.
#
# Expected: prompts "closest to a target" pass rate, as its docstring says, so mostly of middling difficulty.
# Observed: a prompt's chance is proportional to exp(-|target - pass rate| / tau), and tau is 1. So the likeliest prompt is
# at most e times as likely as the least likely one. With target_reward=0.5 the signal p (1 - p) of what is chosen is
# 1.05 times that of a uniform choice. target_reward is 1: without settings, prompts that are always right are the
# likeliest, and the signal is 0.99 times. With tau=0.1 it is 1.35 times, with tau=0 (the closest ones) 1.48 times.
# What to do: set target_reward=0.5 and tau=0.1 or less.
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


def signal(**settings):
    """p (1 - p) of chosen prompts over that of all, once their pass rates are known."""
    config = SimpleNamespace(feature_keys=["weak", "strong"], kwargs=settings, seed=1)
    selector, chosen = DifficultyBasedSelector(data, config), []
    for _ in range(300):
        chosen.append(selector.get_indices(32).tolist())
        selector.feedback(chosen[-1], rates[chosen[-1]].tolist())
    late = rates[np.concatenate(chosen[100:])]
    return round(float((late * (1 - late)).mean() / (rates * (1 - rates)).mean()), 2)


CASES = [{}, {"target_reward": 0.5}, {"target_reward": 0.5, "tau": 0.1}, {"target_reward": 0.5, "tau": 0}]
found = [signal(**settings) for settings in CASES]
print("trinity-rft 0.6.0, signal of what is chosen, over that of a uniform choice")
for settings, ratio in zip(CASES, found):
    print(settings or "defaults", ratio)
raise SystemExit(not (0.9 < found[0] < 1.02 and 1.0 < found[1] < 1.1 and found[2] > 1.25 and found[3] > 1.4))
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/trinity"
