#!/usr/bin/env bash
# eval-protocol 0.3.33: its reward for multiple choice takes the article "a" for choice A, and the "d" of "I'd" for D.
#
# Expected: choices are capital letters, in brackets, with a full stop or alone. "It is a square, so (B)." is B.
# Observed: letters match in any case, and an apostrophe ends a word. With two different letters in it a response is
# ambiguous, and worth 0. So "It is a square, so (B)." earns nothing where B is right, and neither does "I'd say B.".
# A sentence with an article and no choice at all earns 1 where A is right, one with "I'd" where D is. What pays is to
# write nothing but the letter, without a reason before it.
# What to do: cut the response to what follows its last "answer is" or its last box before it is graded.
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

MODULE = "eval_protocol.rewards.multiple_choice_math_reward"
for name in ("eval_protocol", "eval_protocol.rewards"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [f"{sys.argv[1]}/{name.replace('.', '/')}"]
STAND_INS = {
    "eval_protocol.models": dict.fromkeys(("EvaluateResult", "Message", "MetricResult"), SimpleNamespace),
    "eval_protocol.typed_interface": {"reward_function": lambda function: function},
}
for name, names in STAND_INS.items():
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(names)
reward = import_module(MODULE).multiple_choice_math_reward


def score(response, gold):
    messages = [SimpleNamespace(role="assistant", content=text) for text in (response, gold)]
    return reward(messages[:1], messages[1:]).score


CASES = [
    ("(B)", "B", 1.0, 1.0),
    ("The answer is B.", "B", 1.0, 1.0),
    ("It is a square, so (B).", "B", 1.0, 0.0),
    ("I'd say B.", "B", 1.0, 0.0),
    ("As a first step we add 2 and 3. The answer is (C).", "C", 1.0, 0.0),
    ("It is a square.", "A", 0.0, 1.0),
    ("I'd say that none of these is right.", "D", 0.0, 1.0),
]
found = []
print("eval-protocol 0.3.33, multiple_choice_math_reward")
for response, gold, expected, _ in CASES:
    found.append(score(response, gold))
    print(f"{response!r} for {gold}: expected {expected}, found {found[-1]}")
raise SystemExit(found != [observed for *_, observed in CASES])
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/package"
