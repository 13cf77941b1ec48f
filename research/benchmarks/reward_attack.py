"""Rewards under attack: ``python -m research.benchmarks.reward_attack``.

Hostile responses of known verdict (:mod:`research.benchmarks.attack.families`) and answers that a person judges at a
glance (:mod:`research.benchmarks.attack.judged`) through the real pool of worker processes, with MathReward,
ExactMatchReward and NumericReward, and a user's function that forks, exits, crashes, hangs and fills memory
(:mod:`research.benchmarks.attack.misbehaviour`). Counted are responses that do not come back, false positives and false
negatives, failed grades by reason, grades longer than the limit, and anything that is run: a canary that injected code
would touch, and Python's audit events (:mod:`research.benchmarks.attack.watch`). Exits with 1 where something hung, was
run or was judged wrongly.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ada_lightning.core.protocols import Reward
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.exact_match import ExactMatchReward
from ada_lightning.rewards.extraction import LastBoxed
from ada_lightning.rewards.function import FunctionReward
from ada_lightning.rewards.math import MathReward
from ada_lightning.rewards.numeric import NumericReward, parse_quantity
from ada_lightning.rewards.pool import RewardPool
from research.benchmarks.attack.families import Case, hostile
from research.benchmarks.attack.judged import judged
from research.benchmarks.attack.misbehaviour import ORDERS
from research.benchmarks.attack.watch import Watched
from research.benchmarks.report import REWARDS, save

_WINDOW = 32
_PATIENCE_S = 60.0
_MEMORY_LIMIT_GB = 1.0
_LATE_S = 2.0
"""On top of the time limit: how long a pool may take to see a worker hang, on a busy machine."""
_WARM_UP = (("x+1", r"\boxed{1+x}"), ("x>2", r"\boxed{2<x}"), (r"\sqrt{2}", r"\boxed{2\sqrt{2}}"))


@dataclass(slots=True)
class Tally:
    """What became of one family of responses under one reward."""

    reward: str
    family: str
    responses: int = 0
    lost: int = 0
    """Never came back."""
    known_verdicts: int = 0
    known_wrong: int = 0
    """Answers among them that are worth 0."""
    false_positives: int = 0
    false_negatives: int = 0
    watched: int = 0
    """Grades that came back from a watched reward; a failed grade tells nothing, and a user's function may run code."""
    executed: int = 0
    """Of those, grades during which something was run."""
    failures: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """Of each grade in its worker; a failed grade has none."""
    wrong: list[dict[str, Any]] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Return the figures as primitives."""
        row = {name: value for name, value in asdict(self).items() if name not in ("seconds", "wrong", "failures")}
        ordered = sorted(self.seconds)
        times = (ordered[len(ordered) // 2], ordered[int(0.99 * len(ordered))], ordered[-1]) if ordered else (None,) * 3
        names = ("median_ms", "p99_ms", "max_ms")
        return (
            row
            | {"failures": dict(self.failures)}
            | {name: value and round(1000 * value, 3) for name, value in zip(names, times, strict=True)}
        )


@dataclass(slots=True)
class Attack:
    """One reward's run: a tally for each family, and how the pool bore it."""

    tallies: list[Tally]
    seconds: float
    longest_silence_s: float
    """Longest time in which no grade came back."""

    @property
    def num_responses(self) -> int:
        """Responses sent."""
        return sum(tally.responses for tally in self.tallies)


def attack(name: str, reward: Reward, cases: Iterable[Case], *, time_limit_s: float, num_workers: int = 2) -> Attack:
    """Send cases through a pool of their own, a few dozen at a time."""
    tallies: dict[str, Tally] = {}
    waiting: dict[int, Case] = {}
    silence = 0.0
    pool = RewardPool(
        reward, num_workers=num_workers, time_limit_s=time_limit_s, memory_limit_gb=_MEMORY_LIMIT_GB, cache_size=0
    )
    pool.start()
    start = heard = time.monotonic()
    try:
        for ticket, case in enumerate(cases):
            tallies.setdefault(case.family, Tally(name, case.family)).responses += 1
            pool.submit(ticket, Prompt("attack", (), {"answer": case.gold}), Completion(case.text))
            waiting[ticket] = case
            if len(waiting) >= _WINDOW:
                heard, silence = _receive(pool, waiting, tallies, heard, silence)
        while waiting and time.monotonic() - heard < _PATIENCE_S:
            heard, silence = _receive(pool, waiting, tallies, heard, silence)
        for case in waiting.values():
            tallies[case.family].lost += 1
        return Attack(list(tallies.values()), time.monotonic() - start, silence)
    finally:
        pool.close()


def _receive(
    pool: RewardPool, waiting: dict[int, Case], tallies: dict[str, Tally], heard: float, silence: float
) -> tuple[float, float]:
    finished = pool.wait(_PATIENCE_S)
    now = time.monotonic()
    for ticket, grade in finished:
        assert isinstance(ticket, int)
        case = waiting.pop(ticket)
        _count(tallies[case.family], case, grade)
    if not finished and now - heard > _PATIENCE_S:
        raise TimeoutError(f"the pool is silent with {len(waiting)} responses pending")
    return (now if finished else heard), max(silence, now - heard)


def _count(tally: Tally, case: Case, grade: Verdict) -> None:
    if grade.failure:
        tally.failures[grade.failure] += 1
    tally.watched += "audit_events" in grade.components
    tally.executed += grade.components.get("audit_events", 0.0) > 0
    if "seconds" in grade.components:
        tally.seconds.append(grade.components["seconds"])
    if case.expected is None or grade.failure:
        return
    tally.known_verdicts += 1
    tally.known_wrong += case.expected == 0
    if grade.reward != case.expected:
        tally.false_positives += case.expected == 0
        tally.false_negatives += case.expected != 0
        tally.wrong.append({"gold": case.gold, "text": ascii(case.text[-300:]), "reward": grade.reward})


def numeric(cases: Iterable[Case]) -> list[Case]:
    """Judged answers to golds that are numbers without a sign of per cent, which NumericReward reads in its own way."""
    return [case for case in cases if parse_quantity(case.gold) is not None and "%" not in case.gold]


def without_known_rights(cases: Iterable[Case]) -> Iterable[Case]:
    """Leave open what exact matching makes of right answers that are spelt otherwise."""
    for case in cases:
        yield case if case.expected == 0.0 else Case(case.family, case.gold, case.text, None)


def orders(num: int, seed: int) -> list[Case]:
    """Misbehaviours in random order, between twice as many ordinary responses, whose reward is 1."""
    rng = random.Random(seed)
    names = list(ORDERS)
    cases = [Case(f"function: {name}", "", name, None) for name in (names * (num // len(names) + 1))[:num]]
    cases += [Case("function: ordinary", "", "ordinary", 1.0)] * (2 * num)
    rng.shuffle(cases)
    return cases


def ordinary(num: int, seed: int) -> list[Case]:
    """Answers as models write them: mostly numbers, some points, roots and polynomials; about half are right."""
    rng = random.Random(seed)
    spellings = [
        ("{n}", "{n}"),
        ("{n}", "{n}.0"),
        ("{n}", r"x = {n}"),
        ("{n}", r"{n} \text{{ cm}}"),
        (r"\frac{{{n}}}{{7}}", r"\dfrac{{{n}}}{{7}}"),
        ("({n},1)", r"\left({n}, 1\right)"),
        (r"{n}\sqrt{{2}}", r"\sqrt{{2}}\cdot {n}"),
        ("x^2+{n}", "{n}+x^2"),
    ]
    cases = []
    for _ in range(num):
        gold, answer = rng.choices(spellings, weights=(8, 2, 2, 2, 3, 2, 1, 1))[0]
        value = rng.randint(2, 10**4)
        given = value if rng.random() < 0.5 else value + 1
        text = "Let us think step by step. " * 40 + rf"The answer is \boxed{{{answer.format(n=given)}}}."
        cases.append(Case("ordinary", gold.format(n=value), text, float(given == value)))
    return cases


def main() -> int:
    """Attack, print, save; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num", type=int, default=12_000, help="hostile responses, MathReward and ExactMatch together")
    parser.add_argument(
        "--judged", type=int, default=8_000, help="answers judged by hand, drawn before repeats are dropped"
    )
    parser.add_argument("--orders", type=int, default=72, help="misbehaviours of a user's function")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=4.0, help="seconds for one grade")
    parser.add_argument("--no-save", action="store_true", help="only print")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(before), os.environ.get("PYTHONPATH"))))
        os.chdir(folder)  # a canary would appear here
        try:
            runs, speed = run_all(arguments)
            canaries = sorted(str(path) for path in Path(folder).rglob("*"))
        finally:
            os.chdir(before)
    return conclude(arguments, runs, speed, canaries)


def run_all(arguments: argparse.Namespace) -> tuple[list[Attack], list[dict[str, Any]]]:
    """Run the attacks and measure the speed on ordinary answers."""
    limit = {"time_limit_s": arguments.time_limit}
    math = Watched(MathReward(LastBoxed()), _WARM_UP)
    exact = Watched(ExactMatchReward(LastBoxed()))
    num_math = arguments.num * 3 // 4
    runs = [
        attack("MathReward", math, hostile(num_math, arguments.seed), **limit),
        attack(
            "ExactMatchReward",
            exact,
            without_known_rights(hostile(arguments.num - num_math, arguments.seed + 1)),
            **limit,
        ),
        attack(
            "FunctionReward",
            FunctionReward("research.benchmarks.attack.misbehaviour.obey"),
            orders(arguments.orders, arguments.seed),
            time_limit_s=2.0,
        ),
    ]
    cases = list(judged(arguments.judged, arguments.seed))
    runs += [
        attack("MathReward", math, cases, **limit),
        attack("NumericReward", Watched(NumericReward(LastBoxed(), relative_tolerance=1e-6)), numeric(cases), **limit),
    ]
    speed = []
    for name, reward in (("MathReward", math), ("ExactMatchReward", exact)):
        easy = attack(name, reward, _open(ordinary(max(arguments.num // 4, 100), arguments.seed), name), **limit)
        speed.append(_speed("ordinary", name, easy))
        runs.append(easy)
    speed += [_speed("hostile", run.tallies[0].reward, run) for run in runs[:2]]
    return runs, speed


def conclude(
    arguments: argparse.Namespace, runs: Sequence[Attack], speed: list[dict[str, Any]], canaries: list[str]
) -> int:
    """Print and save what happened; 1 where anything went wrong."""
    tallies = [tally for run in runs for tally in run.tallies]
    rows = [tally.row() for tally in tallies]
    wrong = [found | {"family": tally.family} for tally in tallies for found in tally.wrong]
    summary = {
        "responses": sum(row["responses"] for row in rows),
        "lost": sum(row["lost"] for row in rows),
        "known_verdicts": sum(row["known_verdicts"] for row in rows),
        "known_wrong": sum(row["known_wrong"] for row in rows),
        "judged_by_hand": len({(case.gold, case.text) for case in judged(arguments.judged, arguments.seed)}),
        "false_positives": sum(row["false_positives"] for row in rows),
        "false_negatives": sum(row["false_negatives"] for row in rows),
        "watched": sum(row["watched"] for row in rows),
        "executed": sum(row["executed"] for row in rows),
        "canaries": len(canaries),
        "longest_silence_s": round(max(run.longest_silence_s for run in runs), 2),
        "seconds": round(sum(run.seconds for run in runs), 1),
    }
    print(*rows, *speed, sep="\n")
    print(summary)
    for found in wrong[:20]:
        print("WRONG", found)
    if not arguments.no_save:
        print(save("reward_attack", folder=REWARDS, summary=summary, rows=rows, speed=speed, wrong=wrong[:20]))
    bad = summary["lost"] or wrong or summary["executed"] or canaries
    too_slow = summary["longest_silence_s"] > arguments.time_limit + _LATE_S
    return int(bool(bad or too_slow))


def _open(cases: Sequence[Case], reward: str) -> Iterable[Case]:
    return cases if reward == "MathReward" else (Case(c.family, c.gold, c.text, None) for c in cases)


def _speed(work: str, name: str, run: Attack) -> dict[str, Any]:
    return {
        "work": work,
        "reward": name,
        "responses": run.num_responses,
        "grades_per_s": round(run.num_responses / run.seconds, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
