"""Which environments of prime-rl a method drives, and what of prime-rl's own settings cannot go with it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ada_lightning.config.problems import ConfigError

FILE = "ADA_PRIME_RL"
"""Environment variable that names a TOML file: a table for each environment, by its name."""
_ALGORITHMS = ("grpo", "max_rl")
"""Whose advantages are replaced; others train by something else than rewards."""


@dataclass(frozen=True, slots=True)
class EnvSettings:
    """The method of one environment."""

    method: str
    num_prompts: int
    """Of a step of the method, which is no batch of prime-rl's."""
    group_size: int
    """prime-rl's, and the method's."""
    max_tokens: int = 1
    """Of the longest response. prime-rl divides by what trains, so it changes nothing but logged weights."""
    seed: int = 0
    open_steps: int = 8
    """Most steps under way at once; where more are asked for, what is missing of the oldest is given up."""
    overrides: Mapping[str, Any] | None = None


def read_settings(config: Any, text: str | None = None) -> dict[str, EnvSettings]:
    """Read the file of :data:`FILE`, and compare it with prime-rl's configuration.

    Args:
        config: the orchestrator's.
        text: in the place of the file.

    Raises:
        ConfigError: no file, one that cannot be read, or what cannot work.
    """
    if text is None:
        name = os.environ.get(FILE, "")
        if not name or not Path(name).is_file():
            raise ConfigError([f"{FILE}={name!r} names no file: give a TOML file with a table for each environment"])
        text = Path(name).read_text(encoding="utf-8")
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{FILE}: {error}"]) from None
    sources = {source.resolved_name: source for source in config.train.source}
    found, problems = {}, []
    for name, table in tables.items():
        if name not in sources:
            problems.append(f"{FILE}: there is no training environment {name!r}; there are {', '.join(sources)}")
        elif not isinstance(table, dict) or not {"method", "num_prompts"} <= set(table):
            problems.append(f"{FILE}: [{name}] needs method and num_prompts")
        else:
            problems += _refusals(name, table, sources[name])
            found[name] = _settings(table, int(sources[name].group_size))
    if not tables:
        problems.append(f"{FILE} names no environment")
    if problems:
        raise ConfigError(problems)
    return found


def approximations(max_off_policy_steps: int) -> list[str]:
    """Return why prime-rl's update is not what the statement says.

    Args:
        max_off_policy_steps: prime-rl's.
    """
    return [
        "prime-rl divides by the tokens with credit of a batch, which depend on outcomes: the direction of each update "
        "is right, and its length is not a constant",
        f"groups older than max_off_policy_steps={max_off_policy_steps} train nothing, and long responses are older",
        "batches are cut by the number of traces, so a prompt may train in two updates, and its step in several",
        "rows are off-policy by at least one update, and tokens whose probability moved much have no gradient",
    ]


def _settings(table: dict[str, Any], group_size: int) -> EnvSettings:
    known = {name: table[name] for name in EnvSettings.__slots__ if name in table and name != "overrides"}
    others = {name: value for name, value in table.items() if name not in known}
    return EnvSettings(**{"group_size": group_size, **known}, overrides=others)


def _refusals(name: str, table: Mapping[str, Any], source: Any) -> Iterator[str]:
    group_size = int(source.group_size)
    if group_size < 2:
        yield f"{name}: group_size={group_size} leaves nothing to compare, and is prime-rl's default; use 4 or more"
    if table.get("group_size", group_size) != group_size:
        yield f"{name}: prime-rl draws groups of group_size={group_size}, not {table['group_size']}; leave it out here"
    if source.curriculum is not None:
        yield f"{name}: prime-rl's curriculum would choose tasks next to the method; leave it out"
    if source.algo is not None and source.algo.type not in _ALGORITHMS:
        yield f"{name}: algo.type={source.algo.type} has no advantages that could be replaced; use grpo"
