"""Groups runs that differ only in their seed into one method."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.analysis.report.run import Run

NAMES = frozenset({"run_name", "run_dir", "experiment_name", "ckpt", "preview", "callbacks.preview.only_preview"})
"""Settings that say what a run is called or how it was started, and nothing about what it does."""
MAX_KEYS_IN_NAME = 3
SEED_OF_RUN = "the run's seed"
"""Stands for the value of a key that follows the seed."""
ABSENT = "(not set)"
"""Stands for the value of a key that a method's settings lack."""


@dataclass(frozen=True)
class Method:
    """Runs with the same settings, apart from the seed."""

    name: str
    """What the page calls it."""
    runs: tuple[Run, ...]
    """One per seed, in the order of their seeds."""
    settings: Mapping[str, Any]
    """What its runs share, by dotted key."""

    @property
    def seeds(self) -> list[Any]:
        """Seeds of its runs."""
        return [run.seed for run in self.runs]


@dataclass(frozen=True)
class Setting:
    """One key of the settings."""

    key: str
    values: list[Any]
    """One per method, or a single one where all agree."""

    @property
    def texts(self) -> list[str]:
        """The values as the page shows them."""
        return [short(value) for value in self.values]


def group_runs(runs: Sequence[Run]) -> list[Method]:
    """Put runs of the same settings together, in the order of the first run of each.

    Names, folders and loggers are no difference. Another ``*.seed`` is none where it equals the run's seed in every run
    that could be of the method: it follows.
    """
    keys = [_key(_without_seeds(run)) for run in runs]
    fixed: dict[str, set[str]] = {key: set() for key in keys}
    for key, run in zip(keys, runs, strict=True):
        fixed[key] |= {name for name in _seed_keys(run) if run.settings[name] != run.seed}
    groups: dict[str, list[Run]] = {}
    shared: dict[str, dict[str, Any]] = {}
    for key, run in zip(keys, runs, strict=True):
        whole = key + _key({name: run.settings.get(name) for name in sorted(fixed[key])})
        groups.setdefault(whole, []).append(run)
        shared.setdefault(whole, _shared_settings(run, fixed[key]))
    names = _names(list(groups.values()), list(shared.values()))
    return [
        Method(name, tuple(sorted(group, key=lambda run: (str(type(run.seed)), run.seed or 0))), settings)
        for name, group, settings in zip(names, groups.values(), shared.values(), strict=True)
    ]


def differences(methods: Sequence[Method]) -> tuple[list[Setting], list[Setting]]:
    """Return the keys whose values differ among methods, and those they share, each in the order of the settings."""
    settings = [method.settings for method in methods]
    differing = differing_keys(settings)
    apart = [Setting(key, [values.get(key, ABSENT) for values in settings]) for key in differing]
    return apart, [Setting(key, [value]) for key, value in settings[0].items() if key not in differing]


def differing_keys(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys whose values are not the same everywhere, in the order in which they first appear."""
    keys = dict.fromkeys(key for values in settings for key in values)
    return [key for key in keys if len({_key(values.get(key, ABSENT)) for values in settings}) > 1]


def _names(groups: Sequence[Sequence[Run]], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    experiments = [
        " / ".join(dict.fromkeys(str(run.settings.get("experiment_name", run.name)) for run in group))
        for group in groups
    ]
    names = []
    for experiment, values in zip(experiments, settings, strict=True):
        same = [other for other, name in zip(settings, experiments, strict=True) if name == experiment]
        keys = _leading(differing_keys(same), same)
        # Where much differs, its classes come first: with another class most of the other keys follow.
        named = sorted(keys, key=lambda key: not key.endswith("._target_"))[:MAX_KEYS_IN_NAME]
        if details := ", ".join(f"{_short_key(key)}={short(values.get(key, ABSENT))}" for key in named):
            experiment = f"{experiment} ({details}{', ...' if len(keys) > len(named) else ''})"
        names.append(experiment)
    for name in {name for name in names if names.count(name) > 1}:
        positions = [position for position, other in enumerate(names) if other == name]
        for number, position in enumerate(positions, start=1):
            names[position] = f"{name} #{number}"
    return names


def _leading(keys: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Leave out keys that follow one with the same last name, as ``data.num_steps`` follows ``num_steps``."""
    first: dict[tuple[str, ...], str] = {}
    for key in sorted(keys, key=lambda key: key.count(".")):
        first.setdefault((_short_key(key), *(_key(values.get(key, ABSENT)) for values in settings)), key)
    return [key for key in keys if key in first.values()]


def _short_key(key: str) -> str:
    """Last name of a key; of the class of a part the name of the part."""
    return key.removesuffix("._target_").rpartition(".")[2]


def short(value: Any) -> str:
    """Spell a value of the settings briefly: a component by its class.

    Example:
        >>> short("ada_lightning.methods.sampling.BalanceSampler"), short(1e-05), short(None), short([0.9, 0.999])
        ('BalanceSampler', '1e-05', 'null', '[0.9, 0.999]')
    """
    if isinstance(value, str):
        is_component = value.startswith(("ada_lightning.", "torch.", "lightning."))
        return value.rpartition(".")[2] if is_component else value
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value:+}".replace("+inf", ".inf").replace("-inf", "-.inf")  # as YAML has it
    return json.dumps(value, default=str)


def _without_seeds(run: Run) -> dict[str, Any]:
    """Return the settings, where names and seeds are left out and paths that follow the run's name say so."""
    seeds = {"seed", *_seed_keys(run)}
    return {key: _unnamed(value, run) for key, value in run.settings.items() if key not in seeds and not _is_name(key)}


def _shared_settings(run: Run, fixed: Collection[str]) -> dict[str, Any]:
    seeds = {key: run.settings[key] if key in fixed else SEED_OF_RUN for key in _seed_keys(run)}
    return _without_seeds(run) | seeds


def _seed_keys(run: Run) -> list[str]:
    return [key for key in run.settings if key.endswith(".seed") and not _is_name(key)]


def _is_name(key: str) -> bool:
    return key in NAMES or key.startswith("logger.")


def _unnamed(value: Any, run: Run) -> Any:
    """Replace the run's folder and name where they are whole parts of a path: a run may be called ``a``, or ``cpu``."""
    if not isinstance(value, str):
        return value
    for key in ("run_dir", "run_name"):
        name = run.settings.get(key)
        if name and (key == "run_dir" or "/" in value):
            value = re.sub(rf"(?:^|(?<=/)){re.escape(str(name))}(?=/|$)", f"${{{key}}}", value)
    return value


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
