#!/usr/bin/env bash
# axolotl 0.21.0: with context parallelism GRPO's sampler repeats epochs, not batches, so that prompts are never used.
#
# Expected (its docstring, with a table): each batch of prompts comes `repeat_count` times in a row, before the next
# one. TRL's trainer, which axolotl's extends, relies on that: it generates for the first of these batches, and reuses
# the responses for the others without looking at their prompts.
# Observed: the whole epoch comes `repeat_count` times. Of 8 prompts in batches of 2 with repeat_count=2 such a trainer
# generates for 0, 1, 4, 5 and again for 0, 1, 4, 5: the others are drawn and never used. With 4 it uses 2 of 8. Only
# if repeat_count has no factor in common with the number of batches are all used. Without drop_last, groups of ranks
# also get different numbers: of 6 prompts one has 4, the other 2, and len() says 4 to both.
# What to do: repeat_count is num_iterations * gradient_accumulation_steps: leave both at 1 with context parallelism.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile numpy==2.3.5 torch==2.13.0
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --ignore-requires-python --target "$folder/axolotl" axolotl==0.21.0
# The module is loaded alone: the package's own imports want a whole training environment, and Python 3.12.
cat > "$folder/check.py" <<'PYTHON'
import sys
from importlib.util import module_from_spec, spec_from_file_location

spec = spec_from_file_location("sampler", f"{sys.argv[1]}/axolotl/core/trainers/grpo/sampler.py")
module = module_from_spec(spec)
spec.loader.exec_module(module)


def sampler(num_prompts, world_size, rank=0, **settings):
    """Two ranks share a sequence."""
    return module.ContextParallelRepeatRandomSampler(
        range(num_prompts),
        world_size=world_size,
        rank=rank,
        batch_size=2,
        context_parallel_size=2,
        shuffle=False,
        **settings,
    )


def order(repeat_count, num_generations=2):
    """The batches that one group of ranks gets, each as its prompts."""
    drawn = list(sampler(8, 2, mini_repeat_count=num_generations, repeat_count=repeat_count, drop_last=True))
    size = 2 * num_generations
    return [drawn[start : start + size : num_generations] for start in range(0, len(drawn), size)]


print("axolotl 0.21.0, 8 prompts in batches of 2")
used = {}
for repeat_count in (1, 2, 4):
    batches = order(repeat_count)
    used[repeat_count] = sorted({prompt for batch in batches[::repeat_count] for prompt in batch})
    print(f"repeat_count={repeat_count}: {batches}")
    print(f"    responses are generated for {used[repeat_count]} (expected: all 8)")
ranks = [sampler(6, 4, rank, mini_repeat_count=1) for rank in (0, 2)]
lengths = [(len(list(each)), len(each)) for each in ranks]
print("two groups, 6 prompts, no drop_last: drawn and len()", lengths, "(expected: the same)")
expected = {1: list(range(8)), 2: [0, 1, 4, 5], 4: [0, 1]}
raise SystemExit(used != expected or lengths != [(4, 4), (2, 4)])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/axolotl"
