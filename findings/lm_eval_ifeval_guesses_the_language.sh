#!/usr/bin/env bash
# lm-eval 0.4.13: IFEval's checks of language give one response another verdict in each call, and English is Somali.
#
# Expected: the check of one response has one result, and a plain English sentence is English.
# Observed: the language is guessed by langdetect, which draws random numbers of its own. Nothing sets its seed, and
# random.seed has no effect. "hire me. i code in java, rust and go." follows "English, in lower case" in about half of
# the calls. "MY ANSWER IS YES." is Somali in nearly every call, and "HELLO! HOW CAN I HELP YOU TODAY?" Vietnamese. A
# response without letters counts as any language. The checks of lighteval 0.13.0 and opencompass 0.5.4 set no seed
# either; those of evalscope 1.14.1 do.
# What to do: set langdetect.DetectorFactory.seed = 0, and do not reward short responses by their language.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile langdetect==1.0.9
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/package" lm-eval==0.4.13
# The module is loaded alone: its helpers download data for other checks, and are not called by these.
cat > "$folder/check.py" <<'PYTHON'
import logging
import random
import sys
from types import ModuleType

logging.disable(logging.CRITICAL)
for name in ("lm_eval", "lm_eval.tasks", "lm_eval.tasks.ifeval", "lm_eval.tasks.ifeval.instructions_util"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [f"{sys.argv[1]}/{name.replace('.', '/')}"]
sys.modules["lm_eval.tasks.ifeval.instructions_util"].LANGUAGE_CODES = {"en": "English", "de": "German"}
sys.modules["lm_eval.tasks.ifeval"].instructions_util = sys.modules["lm_eval.tasks.ifeval.instructions_util"]
from lm_eval.tasks.ifeval import instructions

CALLS = 200


def followed(check, response):
    """Returns in how many calls the response follows the instruction."""
    count = 0
    for _ in range(CALLS):
        random.seed(0)
        count += check.check_following(response)
    return count


lower = instructions.LowercaseLettersEnglishChecker("lower")
upper = instructions.CapitalLettersEnglishChecker("upper")
german = instructions.ResponseLanguageChecker("language")
german.build_description(language="de")
CASES = [
    (lower, "the answer is 42, since six times seven is 42.", [CALLS]),
    (lower, "hire me. i code in java, rust and go.", range(1, CALLS)),
    (upper, "MY ANSWER IS YES.", range(CALLS // 4)),
    (upper, "HELLO! HOW CAN I HELP YOU TODAY?", range(CALLS // 4)),
    (german, "42", [CALLS]),
]
changed = False
print(f"lm-eval 0.4.13, ifeval: of {CALLS} calls the response follows in (expected: all, but none of the last)")
for check, response, observed in CASES:
    found = followed(check, response)
    print(f"{type(check).__name__}, {response!r}: {found}")
    changed |= found not in observed
raise SystemExit(changed)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/package"
