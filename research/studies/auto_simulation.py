"""How often ``experiment=auto`` errs, and how soon it decides: ``python -m research.studies.auto_simulation``.

The product's own :class:`~ada_lightning.methods.curriculum.trial.Trial` decides over scripted steps of 32 groups of
four. Counts of right responses follow those of a stored run (``grpo_n4``, in ``docs/studies/real_model/visits.jsonl``).
The share of groups with a signal is set for control and chosen groups; shapes within either kind stay. A group has 208
tokens on average, with a coefficient of variation of 0.35, at most 448.

No policy learns here: this checks the decision, not what choosing is worth in training. Writes
``docs/studies/auto/simulation.json`` after every case, and goes on from there; about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.methods.curriculum.trial import GroupResult, Mode, Trial
from ada_lightning.run.files import write_text
from research.benchmarks.report import DOCS, header, markdown

FILE = DOCS / "studies" / "auto" / "simulation.json"
STORED = DOCS / "studies" / "real_model" / "visits.jsonl"
STORED_RUN = "grpo_n4-lr1e-05-p32-100"
NUM_PROMPTS, GROUP_SIZE = 32, 4
CONTROL = 0.30
"""Share of control groups with a signal."""
TURNS_AT = 100
LENGTHS = (40, 176, 400)
"""Steps at which a run is looked at."""
_MEAN_TOKENS, _SPREAD, _MOST_TOKENS = 208.0, 0.35, 448.0


@dataclass(frozen=True)
class Case:
    """What is true of the chosen groups, and what a trained token costs."""

    name: str
    cost_ratio: float
    streams: int
    chosen: Callable[[int], float]
    """Share of chosen groups with a signal, by step."""
    control: Callable[[int], float] = lambda step: CONTROL

    @property
    def key(self) -> str:
        """Name and cost ratio: what the file knows it by."""
        return f"{self.name}, cost ratio {self.cost_ratio:g}"


def _constant(share: float) -> Callable[[int], float]:
    return lambda step: share


def _drifting(step: int) -> float:
    """From 10 % up to 60 % and back within 400 steps."""
    return 0.10 + 0.50 * math.sin(math.pi * min(step, 400) / 400)


def _turning(step: int) -> float:
    return 0.43 if step < TURNS_AT else 0.20


def cases(streams: int) -> list[Case]:
    """Return all cases; those without a difference have ``streams`` streams, the others a fifth.

    Args:
        streams: of a case, at least 5.
    """
    found = []
    for cost_ratio in (1.0, 3.0):
        found += [
            Case("no difference", cost_ratio, streams, _constant(CONTROL)),
            Case("no difference, both drift", cost_ratio, streams, _drifting, _drifting),
        ]
        shares = {"0 %": 0.0, "20 %": 0.20, "43 %": 0.43, "56 %": 0.56}
        found += [Case(name, cost_ratio, streams // 5, _constant(share)) for name, share in shares.items()]
        found.append(Case(f"43 %, then 20 % from step {TURNS_AT}", cost_ratio, streams // 5, _turning))
    return found


@cache
def stored_law() -> NDArray[np.float64]:
    """Return how often a group of the stored run has 0 to 4 right responses. Shape ``(5,)``."""
    for line in STORED.read_text().splitlines():
        run = json.loads(line)
        if run["name"] == STORED_RUN:
            counts = [positives for step in run["steps"] for _, positives, total in step if total == GROUP_SIZE]
            law: NDArray[np.float64] = np.bincount(counts, minlength=GROUP_SIZE + 1) / len(counts)
            return law
    raise ValueError(f"{STORED} holds no run {STORED_RUN}")


def law_of(signal: float) -> NDArray[np.float64]:
    """Return the stored law with another share of groups with a signal. Shape ``(5,)``."""
    law = stored_law().copy()
    mixed = law[1:-1].sum()
    law[1:-1] *= signal / mixed
    law[[0, -1]] *= (1.0 - signal) / (1.0 - mixed)
    return law


def groups(number: int, signal: float, generator: np.random.Generator) -> list[GroupResult]:
    """Draw groups."""
    right = generator.choice(GROUP_SIZE + 1, p=law_of(signal), size=number)
    tokens = np.minimum(_MEAN_TOKENS * generator.gamma(1 / _SPREAD**2, _SPREAD**2, size=number), _MOST_TOKENS)
    return [
        GroupResult(int(a), GROUP_SIZE - int(a), length, length if 0 < a < GROUP_SIZE else 0.0)
        for a, length in zip(right, tokens.tolist(), strict=True)
    ]


def stream(case: Case, seed: int, steps: int) -> dict[str, Any]:
    """Run one stream, and return when it first chose and what it gained.

    Returns:
        ``first_chosen``, step or None; ``gains``, over uniform order, after each of :data:`LENGTHS` that it reaches;
        ``share``, of steps in each mode.
    """
    generator, trial = np.random.default_rng([seed, *case.key.encode()]), Trial()
    first, gains, modes = None, {}, dict.fromkeys(Mode, 0)
    given = expected = 0.0
    for step in range(steps):
        modes[trial.mode] += 1
        num_control = trial.num_control(NUM_PROMPTS)
        control = groups(num_control, case.control(step), generator)
        chosen = groups(NUM_PROMPTS - num_control, case.chosen(step), generator)
        for group in (*control, *chosen):
            given += group.comparisons
            expected += _true_rate(case.control(step), case.cost_ratio) * (
                group.generated + case.cost_ratio * group.trained
            )
        change = trial.observe(
            chosen,
            control,
            cost_ratio=case.cost_ratio,
            group_size=GROUP_SIZE,
            generator=random.Random(f"{seed}/{step}"),
        )
        if change is not None and change.after is Mode.CHOSEN and first is None:
            first = step + 1
        if step + 1 in LENGTHS:
            gains[str(step + 1)] = given / expected
    return {"first_chosen": first, "gains": gains, "share": {str(mode): count / steps for mode, count in modes.items()}}


@cache
def _true_rate(signal: float, cost_ratio: float) -> float:
    """Expected comparisons per unit of cost of groups with this share of signal."""
    right = np.arange(GROUP_SIZE + 1)
    gave = float(law_of(signal) @ (right * (GROUP_SIZE - right) / GROUP_SIZE))
    return gave / (_mean_tokens() * (1.0 + cost_ratio * signal))


@cache
def _mean_tokens() -> float:
    """Mean of the tokens that are drawn: the limit cuts a little off."""
    lengths = _MEAN_TOKENS * np.random.default_rng(0).gamma(1 / _SPREAD**2, _SPREAD**2, size=1_000_000)
    return float(np.minimum(lengths, _MOST_TOKENS).mean())


def summary(case: Case, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of a case."""
    first = [row["first_chosen"] for row in found]
    decided = [math.inf if step is None else step for step in first]
    median = float(np.median(decided))
    gains = {}
    for length in found[0]["gains"]:
        values = [row["gains"][length] for row in found]
        gains[length] = {"mean": float(np.mean(values)), "worst_5_percent": float(np.quantile(values, 0.05))}
    return {
        "name": case.name,
        "cost_ratio": case.cost_ratio,
        "streams": len(found),
        "ever_chosen": sum(step is not None for step in first),
        "median_step": None if math.isinf(median) else median,
        "always": _true_rate(case.chosen(0), case.cost_ratio) / _true_rate(case.control(0), case.cost_ratio),
        "gains": gains,
        "share": {mode: float(np.mean([row["share"][mode] for row in found])) for mode in found[0]["share"]},
    }


def _one(job: tuple[int, int, int, int]) -> dict[str, Any]:
    """A stream by numbers: cases hold functions, which another process cannot be sent."""
    index, streams, seed, steps = job
    return stream(cases(streams)[index], seed, steps)


def run(streams: int, steps: int) -> None:
    """Run the cases that the file lacks, and write it after each."""
    known = json.loads(FILE.read_text()) if FILE.exists() else {"cases": {}}
    with ProcessPoolExecutor() as pool:
        for index, case in enumerate(cases(streams)):
            if known["cases"].get(case.key, {}).get("streams") == case.streams:
                continue
            jobs = [(index, streams, seed, steps) for seed in range(case.streams)]
            known["cases"][case.key] = summary(case, list(pool.map(_one, jobs, chunksize=8)))
            known["header"] = header("research.studies.auto_simulation")
            FILE.parent.mkdir(parents=True, exist_ok=True)
            write_text(FILE, json.dumps(known, indent=1) + "\n")
            print(json.dumps(known["cases"][case.key]), flush=True)


def table() -> str:
    """Return the table of docs/auto.md."""
    found = json.loads(FILE.read_text())["cases"].values()
    rows = []
    for row in found:
        last = row["gains"][max(row["gains"], key=int)]
        rows.append(
            [
                row["name"],
                f"{row['cost_ratio']:g}",
                f"{row['ever_chosen']:,} of {row['streams']:,}",
                "-" if row["median_step"] is None else f"{row['median_step']:.0f}",
                *(f"{gain['mean']:.2f}" for gain in row["gains"].values()),
                f"{last['worst_5_percent']:.2f}",
            ]
        )
    lengths = [f"gain after {length} steps" for length in next(iter(found))["gains"]]
    title = ["chosen groups with a signal (control 30 %)", "cost ratio", "ever chose", "at step (median)", *lengths]
    return markdown([*title, "gain of the worst 5 %, at the end"], rows)


def main() -> None:
    """Simulate, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000, help="of each case without a difference; others a fifth")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--report-only", action="store_true", help="print the table of what is stored")
    options = parser.parse_args()
    if options.streams < 5 or options.steps < LENGTHS[0]:
        parser.error(f"--streams must be at least 5 and --steps at least {LENGTHS[0]}")
    if not options.report_only:
        run(options.streams, options.steps)
    print(table())


if __name__ == "__main__":
    main()
