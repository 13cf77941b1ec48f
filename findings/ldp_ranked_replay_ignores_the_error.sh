#!/usr/bin/env bash
# ldp 1.10.0: a replay buffer that is prioritised by rank does not look at the errors, or prefers the smallest.
#
# Expected (arXiv:1511.05952, which its docstring names): with ranked=True the sample of the largest error has rank 1
# and priority 1, the second 1/2, and so on.
# Observed: argsort of the errors is taken for their ranks. It says which sample comes where, not where a sample comes,
# and begins with the smallest. In a buffer whose errors rise the sample of error 0 has priority 1, and where they
# fall it has that too. In a shuffled buffer of 100 with errors of 0 to 99 the priorities have nothing to do with the
# errors: ten that are drawn have a mean error of 49, as without priorities. By the paper's ranks it is 76, and
# ranked=False draws 66.
# What to do: set ranked=False.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile numpy==2.3.5 \
    pydantic==2.14.3 tqdm==4.70.1
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/ldp" ldp==1.10.0
# The module is loaded alone. What it imports of torch and of ldp serves to compute errors, which are given here: names
# stand in for it.
cat > "$folder/check.py" <<'PYTHON'
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import numpy as np

STAND_INS = {
    "torch": ("Tensor",),
    "ldp": (),
    "ldp.graph": ("eval_mode",),
    "ldp.graph.async_torch": ("AsyncTorchModule",),
}
for name, names in STAND_INS.items():
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(dict.fromkeys(names, object))
spec = spec_from_file_location("replay_buffers", f"{sys.argv[1]}/ldp/alg/optimizer/replay_buffers.py")
module = module_from_spec(spec)
spec.loader.exec_module(module)
NUM_DRAWS = 4000


def draw(errors, ranked, size):
    """How often each sample is drawn, of NUM_DRAWS times `size` without replacement."""
    np.random.seed(0)
    buffer = module.PrioritizedReplayBuffer(alpha=1.0, ranked=ranked, q_function=None)
    buffer.resize(size)
    for index, error in enumerate(errors):
        buffer.append({"index": index, "td_error": float(error)})
    counts = np.zeros(len(errors))
    for _ in range(NUM_DRAWS):
        for batch in buffer.batched_iter(size, shuffle=False):
            counts[batch["index"]] += 1
    return counts / counts.sum()


print("ldp 1.10.0, numpy", np.__version__)
rising = np.arange(10)
most = {}
for name, errors in {"rise": rising, "fall": rising[::-1]}.items():
    most[name] = int(errors[draw(errors, True, 1).argmax()])
    print(f"ten errors of 0 to 9 that {name}: drawn most often is the one of error {most[name]} (expected 9)")
shuffled = np.random.RandomState(1).permutation(100)
means = {ranked: float(draw(shuffled, ranked, 10) @ shuffled) for ranked in (True, False)}
by_rank = 1 / (100 - np.arange(100))  # of errors of 0 to 99: the largest has rank 1
by_rank /= by_rank.sum()
right = np.mean([np.random.choice(100, 10, replace=False, p=by_rank).mean() for _ in range(NUM_DRAWS)])
print(f"100 shuffled errors, mean of the ten drawn: {means[True]:.1f} ranked (expected {right:.1f}, the paper's ranks)")
print(f"    {means[False]:.1f} not ranked, 49.5 without priorities")
raise SystemExit(most != {"rise": 0, "fall": 0} or not (abs(means[True] - 49.5) < 8 < means[False] - 49.5))
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/ldp"
