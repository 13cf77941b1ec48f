#!/usr/bin/env bash
# areal 1.0.4: a math grade that passes its limit of time is waited for to the end, and is worth 0 then.
#
# Expected: MathVerifyWorker(timeout=0.5) has an answer after half a second: its description says that it is limited.
# Observed: it asks a thread for the grade inside a `with` of an executor. The limit raises after half a second, and
# leaving the `with` waits until the thread is done: a grade of three seconds takes three seconds, and a right answer is
# then worth 0, though it was known by that time. A grade that takes long holds up its worker as without a limit.
# What to do: trust no limit here: grade in processes that are ended (AReaL's AsyncRewardWrapper gives up the waiting,
# not the work), and count the warnings "Timeout" of the log among the wrong answers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    'math-verify[antlr4_13_2]==0.9.0'
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/areal" areal==1.0.4
# areal's own __init__ wants a whole training environment: it is left out, and its logging is Python's.
cat > "$folder/check.py" <<'PYTHON'
import logging
import sys
import time
from types import ModuleType

for name in ("areal", "areal.utils"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [f"{sys.argv[1]}/{name.replace('.', '/')}"]
sys.modules["areal.utils"].logging = logging
logging.disable(logging.CRITICAL)

from areal.reward import MathVerifyWorker


class Slow(MathVerifyWorker):
    """Takes three seconds longer, as a hard expression would."""

    def _verify_impl(self, response, ground_truth):
        time.sleep(3)
        return super()._verify_impl(response, ground_truth)


def grade(worker):
    began = time.perf_counter()
    return worker.verify(r"\boxed{5}", "5"), time.perf_counter() - began


grade(MathVerifyWorker())  # the first grade imports what it needs
workers = MathVerifyWorker(), Slow(timeout=0.5), Slow(timeout=None)
(quick, _), (limited, took), (unlimited, _) = map(grade, workers)
print("areal 1.0.4: a right answer (expected: an answer after 0.5 s where that is the limit)")
print(f"quick: {quick}; slow without a limit: {unlimited}; slow with a limit of 0.5 s: {limited} after {took:.1f} s")
raise SystemExit((quick, unlimited, limited) != (1.0, 1.0, 0.0) or took < 3)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/areal"
