#!/usr/bin/env bash
# torchtune 0.6.1: PPO's whitened advantages keep their mean, so responses that are all right are all pushed up.
#
# Expected: estimate_advantages normalises the advantages of the batch, to mean 0 and deviation 1. TRL's function, which
# its docstring names as the source, adds the mean back only where shift_mean is False. A constant that is added to all
# rewards then changes nothing.
# Observed: whiten adds the mean back where shift_mean is True, which is the default and what the PPO recipe uses. With
# values of 0 and rewards of 0 and 1 a right response has 1.48 and a wrong one -0.48. Of rewards of 10 and 11 they have
# 11.48 and 9.52, of -10 and -9 they have -8.52 and -10.48: everything is pushed up, or everything down, and the
# difference of 2 that is the signal is small beside it. shift_mean=False gives mean 0.
# What to do: subtract a batch's mean from the advantages yourself, behind estimate_advantages.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile numpy==2.3.5 torch==2.13.0
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/torchtune" torchtune==0.6.1
# The module is loaded alone: the package's own imports want torchao and more.
cat > "$folder/check.py" <<'PYTHON'
import sys
from importlib.util import module_from_spec, spec_from_file_location

import torch

spec = spec_from_file_location("rewards", f"{sys.argv[1]}/torchtune/rlhf/rewards.py")
rewards = module_from_spec(spec)
spec.loader.exec_module(rewards)

SHAPE = (8, 4)  # eight responses of four tokens


def advantages(baseline):
    """Of a right and of a wrong response, and the mean of all. The reward comes with the last token."""
    given = torch.zeros(SHAPE)
    given[:4, -1] = 1
    given[:, -1] += baseline
    found, _ = rewards.estimate_advantages(torch.zeros(SHAPE), given, 1.0, 1.0, masks=torch.ones(SHAPE, dtype=bool))
    return [round(value, 2) for value in (float(found[0, 0]), float(found[-1, 0]), float(found.mean()))]


print("torchtune 0.6.1, torch", torch.__version__, "(expected: mean 0 in each line, and the same numbers)")
found = {baseline: advantages(float(baseline)) for baseline in (0, 10, -10)}
for baseline, (right, wrong, mean) in found.items():
    print(f"rewards of {baseline} and {baseline + 1}: right {right}, wrong {wrong}, mean {mean}")
numbers = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
means = [round(float(rewards.whiten(numbers, shift_mean=shift).mean()), 4) for shift in (True, False)]
print("whiten of 1, 2, 3, 4: mean", means[0], "with shift_mean=True, mean", means[1], "with False")
expected = {0: [1.48, -0.48, 0.5], 10: [11.48, 9.52, 10.5], -10: [-8.52, -10.48, -9.5]}
raise SystemExit(found != expected or means != [2.5, 0.0])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/torchtune"
