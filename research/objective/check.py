"""Runs a trainer's own functions on every outcome of small groups: ``python -m research.objective.check NAME``.

The package is installed without its dependencies into ``build/objective/NAME``, in front of everything that is
installed; what its import needs stands in ``PACKAGES``. A reader makes an update of settings; the same settings go to
the package's own functions; both give the factor of every token's ``grad log p`` in every batch of two groups, the
weight of a prompt by its pass rate, and which groups a filter keeps. The reader's keys and defaults are held against
the package's own options. Writes ``docs/objective/checked.json``; ``--keys`` writes the reader's list of keys instead.
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

from ada_lightning.objective.batch import Group, advantages, group_of, kept_rows, token_factors
from ada_lightning.objective.readers.find import TRAINERS
from ada_lightning.objective.settings import Settings, Trainer
from ada_lightning.objective.update import Missing, Single, Truncated, Update
from ada_lightning.objective.weights import PASS_RATES, weight
from ada_lightning.run.files import write_text
from research.objective.rows import WIDTH

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
        "pyvers==0.2.3",
        "orjson==3.13.0",
    ),
    "openrlhf": ("openrlhf==0.11.2",),
    "ms_swift": ("ms-swift==4.6.0",),
}
"""By trainer, the pinned package first."""
LENGTHS = ((1, 3, 2), (2, 1, 3))
"""Tokens of the responses of two groups."""
SIZES = (3, 8, 16)
"""Responses of groups of equal fractional rewards."""
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


class Filtering(Protocol):
    """A filter that could be run."""

    def keeps(self, group: Group) -> bool | None:
        """Return whether it keeps a group; None for settings without one."""
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
    parser.add_argument("--keys", action="store_true", help="write the reader's list of keys without an effect")
    arguments = parser.parse_args(argv)
    name = arguments.name
    make_environment(name)
    if arguments.keys:
        write_keys(name)
        return
    found = check(name)
    everything = json.loads(CHECKED.read_text()) if CHECKED.exists() else {}
    write_text(CHECKED, json.dumps(everything | {name: found}, indent=1, sort_keys=True) + "\n")
    worst = max(max(row["tokens"], row["weights"], row["special"]) for row in found["combinations"])
    wrong = wrong_options(name)
    print(f"{found['package']}: {len(found['combinations'])} combinations, {found['batches']} batches each")
    print(f"largest relative error {worst:.1e}, at most {LIMIT:g} is allowed")
    print(f"{len(package_options(name))} options; the reader is wrong about: {', '.join(wrong) or 'none'}")
    sys.exit(worst > LIMIT or bool(wrong))


def make_environment(name: str) -> None:
    """Install what is missing of a trainer's packages into their own folder, and put it in front."""
    use_environment(name)
    if missing := [pin for pin in PACKAGES[name] if not _is_installed(pin)]:
        folder = str(FOLDER / name)
        command = [sys.executable, "-m", "pip", "install", "-q", "--upgrade", "--no-deps", "--target", folder, *missing]
        subprocess.run(command, check=True)
    use_environment(name)


def use_environment(name: str) -> bool:
    """Put the folder of a trainer in front, if it is there. Returns whether all it needs can be imported."""
    folder = FOLDER / name
    if folder.is_dir() and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
    return all(_is_installed(pin) for pin in PACKAGES[name])


def _is_installed(pin: str) -> bool:
    package, _, version = pin.partition("==")
    try:
        return metadata.version(package) == version
    except metadata.PackageNotFoundError:
        return False


def package_options(name: str) -> Mapping[str, Any]:
    """Return every option of a trainer with its default, as the package itself has it."""
    return dict(importlib.import_module(f"research.objective.{name}").options())


def wrong_options(name: str) -> list[str]:
    """Return the options that the reader does not know, that are none, or that have another default."""
    trainer, found = TRAINERS[name], package_options(name)
    unknown = [f"{key} (not known)" for key in found if not trainer.knows(key)]
    defaults = [
        f"{key} ({_listed(value)!r} for {_listed(found[key])!r})"
        for key, value in trainer.defaults.items()
        if key in found and _listed(value) != _listed(found[key])
    ]
    gone = [f"{key} (no option)" for key in trainer.defaults if key not in found]
    return sorted([*unknown, *defaults, *gone])


def write_keys(name: str) -> None:
    """Write the options that turn no update, one a line."""
    trainer = TRAINERS[name]
    path = Path(sys.modules[Trainer.__module__].__file__ or "").parent / "readers" / "keys" / f"{name}.txt"
    write_text(path, "\n".join(sorted(key for key in package_options(name) if key not in trainer.defaults)) + "\n")


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


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
    return {
        "settings": dict(combination.settings),
        "tokens": max(
            _error(_flat(token_factors(update, batch, width=WIDTH)), _flat(combination.real.factors(batch)))
            for batch in [*batches(), *truncated(update)]
        ),
        "weights": _error([_weight(update, rate) for rate in PASS_RATES], real_weights(update, combination.real)),
        "special": max(_special_error(update, combination.real), _filter_error(update, combination.real)),
        "rounding": max(combination.real.rounding(Group((value,) * size)) for size in SIZES for value in FRACTIONS),
    }


def _special_error(update: Update, real: Real) -> float:
    """Largest error for groups of one and missing rewards."""
    return max(
        (
            _error(_flat([row / update.gain for row in advantages(update, batch)]), _flat(real.advantages(batch)))
            for batch in special(update)
        ),
        default=0.0,
    )


def _filter_error(update: Update, real: Any) -> float:
    """1 if a filter keeps other groups than the reader says: of each number right, and of equal fractions; else 0."""
    groups = [
        *(group_of(right, update.group_size) for right in range(update.group_size + 1)),
        *(Group((value,) * update.group_size) for value in (0.25, 0.5, 0.75)),  # sums of them are exact
    ]
    found = [real.keeps(group) for group in groups] if hasattr(real, "keeps") else [None]
    if None in found:
        return 0.0
    return float(found != [bool(kept_rows(update, group).all()) for group in groups])


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


def truncated(update: Update) -> list[list[Group]]:
    """A batch with truncated responses, where the trainer masks them."""
    if update.truncated is not Truncated.MASKED:
        return []
    rewards, flags = ((1.0, 0.0, 0.0), (1.0, 1.0, 0.0)), ((False, True, False), (True, False, False))
    return [[Group(*each) for each in zip(rewards, LENGTHS, flags, strict=True)]]


def special(update: Update) -> list[list[Group]]:
    """Batches with a group of one, and with a missing reward, where the reader says what becomes of them."""
    found = []
    if update.single in (Single.RAW, Single.ZERO):
        found.append([Group((1.0,)), group_of(1, 3)])
    if update.missing in (Missing.LEFT_OUT, Missing.ZERO, Missing.POISONS) and not update.couples_prompts:
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
    """Largest difference over the largest number; infinite where only one of two is a number."""
    one, other = np.array(ours), np.array(theirs)
    is_poisoned = np.isnan(one) & np.isnan(other)
    one, other = one[~is_poisoned], other[~is_poisoned]
    if not np.isfinite(one).all() or not np.isfinite(other).all():
        return math.inf
    return float(np.abs(one - other).max(initial=0.0) / max(np.abs(other).max(initial=0.0), 1e-12))


if __name__ == "__main__":
    main()
