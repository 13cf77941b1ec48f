"""A grader in a process of its own: ``python -m research.benchmarks.grading.judges NAME`` answers pairs line by line.

Says which version it is, reads a pair as JSON from each line of the input, and writes a line ``[verdict, seconds]`` for
it. What a grader prints goes to the error stream.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType
from typing import Any

from research.benchmarks.grading.corpus import Pair

Judge = Callable[[Pair], bool]
"""Whether a grader takes the answer for right."""


def _boxed(pair: Pair) -> str:
    return pair.response or rf"The answer is \boxed{{{pair.answer}}}."


def ours() -> tuple[Judge, str]:
    """MathReward, several boxes as a list; for scale words NumericReward, which reads them outside of boxes."""
    from ada_lightning.core.records import Completion, Prompt
    from ada_lightning.rewards.extraction import LastBoxed, LastQuantity
    from ada_lightning.rewards.math import MathReward
    from ada_lightning.rewards.numeric import NumericReward

    for name in MathReward.modules:  # a worker of the pool imports them before its first answer
        importlib.import_module(name)
    math, numeric = MathReward(LastBoxed(several="list")), NumericReward(LastQuantity(), relative_tolerance=0.01)

    def judge(pair: Pair) -> bool:
        reward, text = (numeric, f"It is {pair.answer}.") if pair.kind == "X2" else (math, _boxed(pair))
        return reward(Prompt("pair", (), {"answer": pair.gold}), Completion(text)).reward == 1.0

    return judge, ""


def math_verify() -> tuple[Judge, str]:
    """Its documented call, with the gold in a box, as verl's ``math_verify`` and others have it."""
    from math_verify import parse, verify

    def judge(pair: Pair) -> bool:
        return bool(verify(parse(rf"\boxed{{{pair.gold}}}"), parse(_boxed(pair))))

    return judge, version("math-verify")


def verl_math() -> tuple[Judge, str]:
    """``math_reward``, which verl calls for MATH and MATH-500: the last box, and equal text after some clean-up."""
    score = _verl("math_reward").compute_score
    return lambda pair: score(_boxed(pair), pair.gold) == 1.0, version("verl")


def verl_math_dapo() -> tuple[Judge, str]:
    """``math_dapo``: the last line ``Answer: ...``, as DAPO's prompts ask."""
    score = _verl("math_dapo").compute_score
    return lambda pair: bool(score(pair.response or f"Answer: {pair.answer}", pair.gold)["acc"]), version("verl")


def verl_gsm8k() -> tuple[Judge, str]:
    """``gsm8k``: the number behind the last ``####``."""
    score = _verl("gsm8k").compute_score
    return lambda pair: score(pair.response or f"#### {pair.answer}", pair.gold) == 1.0, version("verl")


JUDGES: dict[str, Callable[[], tuple[Judge, str]]] = {
    "ada_lightning": ours,
    "math-verify": math_verify,
    "math-verify, alone": math_verify,
    "verl math": verl_math,
    "verl math_dapo": verl_math_dapo,
    "verl gsm8k": verl_gsm8k,
}
"""What makes each grader, and says which version it is; ours is the one of this checkout."""
FOREIGN = tuple(name for name in JUDGES if name not in ("ada_lightning", "math-verify"))
"""Those that stand in the folder of :mod:`research.benchmarks.grading.__main__`."""


def _verl(name: str) -> ModuleType:
    """Load one file of verl: the package itself imports torch and Ray, its graders nothing."""
    found = importlib.util.find_spec("verl")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("verl is not installed", name="verl")
    path = f"{found.submodule_search_locations[0]}/utils/reward_score/{name}.py"
    spec = importlib.util.spec_from_file_location(f"verl_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Say the version, then answer every line."""
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        judge, number = JUDGES[sys.argv[1]]()
        _say(answers, number)
        for line in sys.stdin:
            pair = Pair(**json.loads(line))
            start = time.perf_counter()
            try:
                verdict = judge(pair)
            except Exception:  # a trainer takes a grader's error for a wrong answer
                verdict = False
            _say(answers, [verdict, time.perf_counter() - start])


def _say(answers: Any, what: object) -> None:
    print(json.dumps(what), file=answers, flush=True)


if __name__ == "__main__":
    main()
