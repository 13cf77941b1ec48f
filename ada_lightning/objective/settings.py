"""A trainer as a table of keys, and the settings of one file held against it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from ada_lightning.audit.untrusted import printable
from ada_lightning.objective.files import Unresolved
from ada_lightning.objective.update import Update

_LARGEST = 2**53


class SettingError(ValueError):
    """A setting whose meaning is not known; the text says which, and the way out."""


def keys_of(name: str) -> frozenset[str]:
    """Return a trainer's keys that turn no update, from ``readers/keys/<name>.txt``."""
    return frozenset((Path(__file__).parent / "readers" / "keys" / f"{name}.txt").read_text(encoding="utf-8").split())


class Evidence(Enum):
    """How a reader's claims were held against the trainer."""

    RUN = "its own advantages and losses were run on every outcome of small groups; what else the card says was read"
    DATA = (
        "its own advantages, filter and training data were run on every outcome of small groups; its losses run on a "
        "server, and were read in its documentation"
    )
    OWN = "its own samplers and advantages were asked; tests sum them over every outcome"
    READ = "its source was read; nothing of it was run"


Changes = Mapping[str, Any]
"""Settings to change, by key."""


@dataclass(frozen=True)
class Trainer:
    """One trainer: which keys it has, and what they make of an update."""

    name: str
    """As ``--trainer`` takes it."""
    title: str
    version: str
    """What the reader was held against."""
    evidence: Evidence
    defaults: Mapping[str, Any]
    """Keys that decide the update, with what the trainer takes where a file is silent."""
    no_effect: frozenset[str]
    """Further keys of the trainer, none of which turns an update."""
    update: Callable[[Settings], Update]
    remedies: Callable[[Settings], Iterable[Changes]]
    """Changes that could make it the mean pass rate, the smallest first; each is computed before it is named."""
    command: str
    """``{file}`` and ``{changes}`` are put in."""
    marks: frozenset[str] = frozenset()
    """Keys, or words of a command, by which a file is known to be this trainer's."""
    prefixes: tuple[str, ...] = ()
    """Beginnings of further keys without an effect."""
    package: str = ""
    """The distribution whose installed version is compared with ``version``, where Python settings are given."""
    spelled: Callable[[str, Any], str] = field(default=lambda key, value: f"{key}={value}")
    """A setting on the command line."""

    def knows(self, key: str) -> bool:
        """Whether the key is one of this trainer's."""
        if key.endswith("_target_"):  # the class that a composed configuration would make
            return True
        if self.owner(key) is not None or key.startswith(self.prefixes or ("\0",)):
            return True
        return any(part in self.no_effect for part in _ancestors(key))

    def owner(self, key: str) -> str | None:
        """Return the key of the table of defaults that this one is, or stands inside of; None if there is none."""
        return next((part for part in _ancestors(key) if part in self.defaults), None)


class Settings:
    """The settings of a file for one trainer, each of the type that its reader asks for.

    Args:
        trainer: whose they are.
        given: by dotted key.
        where: the file, for messages.
    """

    def __init__(self, trainer: Trainer, given: Mapping[str, Any], where: str) -> None:
        self.trainer = trainer
        self.given: dict[str, Any] = {}
        for key, value in given.items():
            owner = trainer.owner(key)
            if owner in (None, key):
                self.given[key] = dict(value) if isinstance(value, Mapping) else value
            else:  # a mapping that is the value of one key
                self.given.setdefault(str(owner), {})[key] = value
        self.where = where

    @property
    def unknown(self) -> list[str]:
        """Keys that the trainer does not have, as far as the reader knows."""
        return sorted(key for key, value in self.given.items() if not self._is_known(key, value))

    @property
    def read(self) -> dict[str, Any]:
        """Keys of the file that decide the update."""
        return {key: value for key, value in self.given.items() if key in self.trainer.defaults}

    def raw(self, key: str) -> Any:
        """Return a value as it stands, or the default.

        Raises:
            SettingError: only a shell or another program knows it.
        """
        value = self.given.get(key, self.trainer.defaults[key])
        if isinstance(value, Unresolved):
            raise SettingError(
                f"{self.where}: {key} is {printable(value.text)}, which this file does not resolve; add "
                f"{key}=VALUE behind the file"
            )
        return value.value if isinstance(value, Enum) else value

    def word(self, key: str, known: Sequence[str]) -> str:
        """Return one of the words that the trainer knows.

        Raises:
            SettingError: it is another one.
        """
        value = self.raw(key)
        if not isinstance(value, str) or value not in known:
            raise self._wrong(key, value, f"one of {', '.join(known)}")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false.

        Raises:
            SettingError: it is something else.
        """
        value = self.raw(key)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def number(self, key: str, *, least: float = -math.inf) -> float:
        """Return a finite number.

        Raises:
            SettingError: it is something else, or below ``least``.
        """
        value = self.raw(key)
        if isinstance(value, str):  # YAML 1.1 reads 1e-3 as a text, and trainers convert it
            value = _as_number(value)
        if not _is_number(value) or value < least:
            raise self._wrong(key, value, "a number" + (f" of at least {least:g}" if least > -math.inf else ""))
        return float(value)

    def optional(self, key: str) -> float | None:
        """Return a finite number, or None.

        Raises:
            SettingError: it is something else.
        """
        return None if self.raw(key) is None else self.number(key)

    def whole(self, key: str, *, least: int = 0) -> int:
        """Return a whole number.

        Raises:
            SettingError: it is something else, or below ``least``.
        """
        value = self.number(key, least=least)
        if value != int(value):
            raise self._wrong(key, value, "a whole number")
        return int(value)

    def optional_whole(self, key: str, *, least: int = 0) -> int | None:
        """Return a whole number, or None.

        Raises:
            SettingError: it is something else.
        """
        return None if self.raw(key) is None else self.whole(key, least=least)

    def numbers(self, key: str, count: int) -> tuple[float, ...] | None:
        """Return so many finite numbers, or None.

        Raises:
            SettingError: it is something else.
        """
        value = self.raw(key)
        if value is None:
            return None
        found = [_as_number(item) if isinstance(item, str) else item for item in value] if _is_list(value) else []
        if len(found) != count or not all(_is_number(item) for item in found):
            raise self._wrong(key, value, f"{count} numbers")
        return tuple(float(item) for item in found)

    def known_whole(self, key: str, *, least: int = 0) -> int | None:
        """Return a whole number, or None; None, too, where only a shell knows it.

        Raises:
            SettingError: it is something else.
        """
        value = self.given.get(key, self.trainer.defaults[key])
        return None if isinstance(value, Unresolved) else self.optional_whole(key, least=least)

    def changed(self, changes: Changes) -> Settings:
        """Return the same settings with some of them replaced."""
        return Settings(self.trainer, {**self.given, **changes}, self.where)

    def _is_known(self, key: str, value: Any) -> bool:
        is_empty = value is None or (isinstance(value, Mapping) and not value)  # a heading with nothing below it
        is_heading = is_empty and any(known.startswith(f"{key}.") for known in self.trainer.defaults)
        return is_heading or self.trainer.knows(key)

    def _wrong(self, key: str, value: Any, wanted: str) -> SettingError:
        return SettingError(
            f"{self.where}: {key} is {spelled(value)}; {self.trainer.title} {self.trainer.version} takes {wanted}, as "
            "far as this reader knows"
        )


def as_option(key: str, value: Any) -> str:
    """Spell a setting as an option of a command.

    Example:
        >>> as_option("scale_rewards", "none"), as_option("actor.clip", [0.2, 0.3])
        ('--scale_rewards none', '--actor.clip 0.2 0.3')
    """
    values = value if _is_list(value) else [value]
    return " ".join([f"--{key}", *map(str, values)])


def _ancestors(key: str) -> Iterator[str]:
    """The key, and what it stands in: a.b.c, a.b, a."""
    while key:
        yield key
        key = key.rpartition(".")[0]


def spelled(value: Any) -> str:
    """Spell a value of a file for people; one that cannot be spelled is called so."""
    try:
        return printable(repr(value) if isinstance(value, str) else value)
    except ValueError:  # more digits than Python writes
        return "a number of thousands of digits"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_number(value: Any) -> bool:
    """Whether it is a finite number, and none that only a mistake makes."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST <= value < _LARGEST


def _as_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
