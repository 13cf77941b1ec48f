"""Runs a trainer's own functions on every outcome of small groups: ``python -m research.objective.check NAME``.

The package is installed without its dependencies into ``build/objective/NAME``, in front of everything that is
installed; what its import needs stands in ``PACKAGES``. A reader makes an update of settings; the same settings go to
the package's own functions; both give the factor of every token's ``grad log p`` in every batch of two groups, and the
weight of a prompt by its pass rate. Writes ``docs/objective/checked.json``.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ada_lightning.objective.batch import Group, advantages, group_of, token_factors
from ada_lightning.objective.readers.find import TRAINERS
from ada_lightning.objective.settings import Settings
from ada_lightning.objective.update import Missing, Single, Update
from ada_lightning.objective.weights import PASS_RATES, weight
from ada_lightning.run.files import write_text

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "objective"
CHECKED = ROOT / "docs" / "objective" / "checked.json"
LIMIT = 1e-6
"""Largest error, relative to the largest number of its kind."""
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "trl": ("trl==1.16.0",),
    "verl": (
        "verl==0.9.1",
        "tensordict==0.10.0",
        "codetiming==1.4.0",
        "TransferQueue==0.1.11",
        "torchdata==0.11.0",
        "pyvers",
        "orjson",
    ),
}
"""By trainer, the pinned package first."""
LENGTHS = ((1, 3, 2), (2, 1, 3))
"""Tokens of the responses of two groups."""
WIDTH = 3
FRACTIONS = tuple(step / 20 for step in range(1, 20))


class Real(Protocol):
    """A trainer's own functions for one combination of settings."""

    def advantages(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return the advantage of each response, by group, of a batch."""
        ...

    def factors(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return what multiplies ``grad log p`` of a response's tokens, by group; NaN where they differ."""
        ...

    def rounding(self, group: Group) -> float:
        """Return the largest advantage of a group in float32, as the trainer computes it."""
        ...


@dataclass(frozen=True)
class Combination:
    """Settings, and what the trainer's functions make of them."""

    settings: Mapping[str, Any]
    real: Real


def main(argv: Sequence[str] | None = None) -> None:
    """Make the environment, check, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(PACKAGES))
    name = parser.parse_args(argv).name
    make_environment(name)
    found = check(name)
    everything = json.loads(CHECKED.read_text()) if CHECKED.exists() else {}
    write_text(CHECKED, json.dumps(everything | {name: found}, indent=1, sort_keys=True) + "\n")
    worst = max(max(row["tokens"], row["weights"], row["special"]) for row in found["combinations"])
    print(f"{found['package']}: {len(found['combinations'])} combinations, {found['batches']} batches each")
    print(f"largest relative error {worst:.1e}, at most {LIMIT:g} is allowed")
    sys.exit(worst > LIMIT)


def make_environment(name: str) -> None:
    """Install the packages of a trainer into their own folder, if they are missing, and put it in front."""
    pinned = PACKAGES[name][0]
    package, _, version = pinned.partition("==")
    folder = FOLDER / name
    is_there = bool(list(folder.glob(f"{package}-{version}.dist-info")))
    if not is_there and not _is_installed(package, version):
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *PACKAGES[name]]
        subprocess.run(command, check=True)
    use_environment(name)


def use_environment(name: str) -> bool:
    """Put the folder of a trainer in front, if it is there. Returns whether the pinned version can be imported."""
    folder = FOLDER / name
    package, _, version = PACKAGES[name][0].partition("==")
    if folder.is_dir() and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
    return _is_installed(package, version)


def _is_installed(package: str, version: str) -> bool:
    try:
        return metadata.version(package) == version
    except metadata.PackageNotFoundError:
        return False


def check(name: str) -> dict[str, Any]:
    """Compare a trainer's reader with its functions.

    Returns:
        The package, how many batches each combination was asked, the largest errors, and the largest advantage of a
        group of equal fractional rewards.
    """
    combinations = importlib.import_module(f"research.objective.{name}").combinations()
    rows = [compared(name, combination) for combination in combinations]
    return {
        "package": PACKAGES[name][0],
        "batches": len(batches()),
        "combinations": rows,
    }


def compared(name: str, combination: Combination) -> dict[str, Any]:
    """Return settings and the largest errors of one combination."""
    update = update_of(name, combination.settings)
    size = update.group_size
    return {
        "settings": dict(combination.settings),
        "tokens": max(
            _error(_flat(token_factors(update, batch, width=WIDTH)), _flat(combination.real.factors(batch)))
            for batch in batches()
        ),
        "weights": _error([_weight(update, rate) for rate in PASS_RATES], real_weights(update, combination.real)),
        "special": max(
            (
                _error(
                    _flat([row / update.gain for row in advantages(update, batch)]),
                    _flat(combination.real.advantages(batch)),
                )
                for batch in special(update)
            ),
            default=0.0,
        ),
        "rounding": max(combination.real.rounding(Group((value,) * size)) for value in FRACTIONS),
    }


def update_of(name: str, settings: Mapping[str, Any]) -> Update:
    """Return what the reader makes of settings."""
    trainer = TRAINERS[name]
    return trainer.update(Settings(trainer, settings, name))


def batches() -> list[list[Group]]:
    """Every outcome of two groups of three responses with different lengths, all of equal rewards left out."""
    outcomes = itertools.product(itertools.product((0.0, 1.0), repeat=3), repeat=2)
    return [
        [Group(rewards, lengths) for rewards, lengths in zip(both, LENGTHS, strict=True)]
        for both in outcomes
        if len({reward for rewards in both for reward in rewards}) > 1
    ]


def special(update: Update) -> list[list[Group]]:
    """Batches with a group of one, and with a missing reward, where the reader says what becomes of them."""
    found = []
    if update.single in (Single.RAW, Single.ZERO):
        found.append([Group((1.0,)), group_of(1, 3)])
    if update.missing in (Missing.LEFT_OUT, Missing.ZERO) and not update.couples_prompts:
        found.append([Group((1.0, 0.0, math.nan)), group_of(1, 3)])
    return found


def real_weights(update: Update, real: Real) -> list[float]:
    """Sum the expected update over all outcomes of the trainer's own functions, next to one prompt of pass rate 1/2."""
    n = update.group_size
    by_counts = {
        (k, j): real.advantages([group_of(k, n), group_of(j, n)])[0] if k + j not in (0, 2 * n) else [0.0] * n
        for k in range(n + 1)
        for j in range(n + 1)
    }
    # A batch of equal rewards: advantages are 0, but for those without a baseline.
    return [
        math.fsum(
            math.comb(n, k)
            * rate**k
            * (1 - rate) ** (n - k)
            * math.comb(n, j)
            * 0.5**n
            * (math.fsum(row[:k]) / rate - math.fsum(row[k:]) / (1 - rate))
            / n
            for (k, j), row in by_counts.items()
        )
        for rate in PASS_RATES
    ]


def _weight(update: Update, pass_rate: float) -> float:
    return weight(update, pass_rate, others=(0.5,)) * (1.0 / update.gain)


def _flat(rows: Sequence[Any]) -> list[float]:
    return [float(value) for row in rows for value in row]


def _error(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Largest difference over the largest number; infinite where a number is none."""
    one, other = np.array(ours), np.array(theirs)
    if not np.isfinite(one).all() or not np.isfinite(other).all():
        return math.inf
    return float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-12))


if __name__ == "__main__":
    main()
