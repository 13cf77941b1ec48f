#!/usr/bin/env bash
# nemo-gym 0.7.0: pass@k counts only the tasks that have k rollouts, and so can be 100 % of one task in ten.
#
# Expected: pass@4 is of all tasks, or is missing where a task has fewer than four rollouts, or says of how many it is.
# majority@k/no_answer is the "fraction with no extracted answer", as the docstring has it.
# Observed: k goes up to the largest number of rollouts that any task has, and tasks with fewer are left out of that k.
# Of ten tasks one is solved and has four rollouts; nine have three wrong ones, as one was masked, say: pass@3 is 10 %,
# pass@4 is 100 %. highest_k_metrics picks the highest k, so a benchmark's headline is the 100 %. In a whole evaluation
# a warning speaks of repeats of unequal size; none says that pass@k changes its tasks with k.
# majority@k/no_answer is always 0, also where no rollout of any task has an answer.
# What to do: count the rollouts of each task first, and read pass@k for the smallest count.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --ignore-requires-python --target "$folder/gym" nemo-gym==0.7.0
# The two functions are compiled alone: their module's imports want a whole environment, and the package Python 3.13.
cat > "$folder/check.py" <<'PYTHON'
import ast
import math
import re
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

NAMES = ("compute_pass_majority_metrics", "highest_k_metrics")
SUFFIXES = ("STD_DEV_ACROSS_RUNS", "STD_ERR_ACROSS_RUNS", "AVG_SAMPLE_STD_DEV")
text = Path(sys.argv[1], "nemo_gym/reward_profile.py").read_text()
functions = [node for node in ast.parse(text).body if getattr(node, "name", "") in NAMES]
future = ast.parse("from __future__ import annotations").body
stat = type("Stat", (str,), {"suffix": property(lambda self: f"/{self}")})
names = SimpleNamespace(**{name: stat(name) for name in SUFFIXES})
space = {"Counter": Counter, "math": math, "re": re, "PassMajorityStat": names}
exec(compile(ast.Module([*future, *functions], []), "reward_profile.py", "exec"), space)
compute, highest = (space[name] for name in NAMES)


def rollouts(number, reward, answer="x"):
    return [{"reward": reward, "answer": answer}] * number


metrics, *_ = compute([rollouts(4, 1.0), *[rollouts(3, 0.0) for _ in range(9)]])
found = [metrics["pass@3/accuracy"], metrics["pass@4/accuracy"], metrics["pass@1[avg-of-4]/accuracy"]]
headline = highest(metrics, "pass@{k}", score_names=["accuracy"])
silent, *_ = compute([rollouts(4, 0.0, None) for _ in range(10)], answer_key="answer")
no_answer = [silent["pass@1/no_answer"], silent["majority@4/no_answer"]]
print("nemo-gym 0.7.0, ten tasks: one solved with four rollouts, nine unsolved with three")
print(f"pass@3 {found[0]}, pass@4 {found[1]} (expected 10.0), mean {found[2]}; headline: {headline}")
print("ten tasks without an answer, pass@1/no_answer and majority@4/no_answer (expected 100.0):", *no_answer)
raise SystemExit(found != [10.0, 100.0, 10.0] or no_answer != [100.0, 0.0] or headline != {"pass@4/accuracy": 100.0})
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/gym"
