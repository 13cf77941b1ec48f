#!/usr/bin/env bash
# eval-protocol 0.3.33: accuracy_reward gives 1 to 2024 for 2025, to 12 for -12, to 1 for 1/2 and to 15 for 1.5.
#
# Expected: a reward named accuracy is 1 for the right answer and 0 for another number, but for rounding.
# Observed: a full stop is deleted as punctuation, so 1.5 and 15 are one answer. Where the gold answer is not digits
# alone, any text that it contains is right: each digit of -12, of 1/2, of 1,234. The rest is graded by closeness: an
# error below 0.1 % earns 1.0, below 1 % 0.9, below 5 % 0.8, below 10 % 0.5, below 30 % 0.3. For 2025 the answer 2000
# earns 0.8 and 1500 earns 0.3, so near misses train as successes. The function has no docstring; its module's speaks of
# comparing with ground truth, after normalisation.
# What to do: give compare_fn, such as one that calls math-verify (accuracy_reward takes one).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/package" eval-protocol==0.3.33
# The module is loaded alone: the package's own imports want a whole environment of clients. Classes of records stand in
# for its messages and results, which are that.
cat > "$folder/check.py" <<'PYTHON'
import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace

PART = "ChatCompletionContentPart"
RECORDS = ("EvaluateResult", "Message", "MetricResult", f"{PART}Param", f"{PART}TextParam")
for name in ("eval_protocol", "eval_protocol.rewards"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [f"{sys.argv[1]}/{name.replace('.', '/')}"]
STAND_INS = {
    "eval_protocol.models": dict.fromkeys(RECORDS, SimpleNamespace),
    "eval_protocol.typed_interface": {"reward_function": lambda function: function},
}
for name, names in STAND_INS.items():
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(names)
reward = import_module("eval_protocol.rewards.accuracy").accuracy_reward


def score(answer, gold):
    texts = (f"The answer is {answer}", gold)
    response, truth = ([SimpleNamespace(role="assistant", content=text)] for text in texts)
    return reward(response, truth).score


CASES = [
    ("2025", "2025", 1.0, 1.0),
    ("2024", "2025", 0.0, 1.0),
    ("2000", "2025", 0.0, 0.8),
    ("1500", "2025", 0.0, 0.3),
    ("19", "18", 0.0, 0.5),
    ("15", "1.5", 0.0, 1.0),
    ("12", "-12", 0.0, 1.0),
    ("2", "-12", 0.0, 1.0),
    ("1", "1/2", 0.0, 1.0),
    ("2", "1/2", 0.0, 1.0),
    ("234", "1,234", 0.0, 1.0),
]
found = []
print("eval-protocol 0.3.33, accuracy_reward")
for answer, gold, expected, _ in CASES:
    found.append(score(answer, gold))
    print(f"{answer} for {gold}: expected {expected}, found {found[-1]}")
raise SystemExit(found != [observed for *_, observed in CASES])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/package"
