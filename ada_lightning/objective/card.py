"""The card of one configuration: numbers, and sentences about them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from importlib import metadata
from typing import Any

from ada_lightning.objective.readers.find import TRAINERS, trainer_of
from ada_lightning.objective.settings import Changes, Settings, Trainer
from ada_lightning.objective.update import Reduction, Update
from ada_lightning.objective.weights import (
    EVEN,
    FINE,
    PASS_RATES,
    Named,
    is_mean,
    nearest,
    relative,
    responses,
    share_kept,
    share_signal,
    weight,
)

_COUNT_ALIKE = (Reduction.CONSTANT, Reduction.RESPONSE_SUM, Reduction.TOKEN_SUM)
"""Reductions by which a token's factor depends on no response's length."""


@dataclass(frozen=True)
class Remedy:
    """Settings that make every prompt weigh the same."""

    changes: Changes
    command: str
    counts_tokens_alike: bool
    """Whether no length changes a token's factor either."""


@dataclass(frozen=True)
class Card:
    """What a configuration optimises."""

    name: str
    trainer: Trainer
    version: str | None
    """That the person runs; None: not known."""
    settings: Mapping[str, Any]
    """Of the file, as far as they decide the update."""
    unknown_keys: tuple[str, ...]
    update: Update
    weights: tuple[float, ...] = ()
    """Relative to p = 1/2, at ``PASS_RATES``, in a large batch; empty where none can be summed."""
    weights_beside: tuple[float, ...] = ()
    """The same with one other prompt of pass rate 1/2 in the batch; empty where others do not matter."""
    curve: tuple[float, ...] = ()
    """The same as ``weights`` at ``FINE``."""
    weight_at_half: float = math.nan
    """In units of the plain policy gradient of p for one response."""
    nearest: tuple[Named, ...] = ()
    signal: tuple[float, ...] = ()
    """Share of groups with a right and a wrong response."""
    kept: tuple[float, ...] = ()
    """Share of responses that a filter keeps."""
    responses: tuple[float, ...] = ()
    """Drawn for each group that trains."""
    is_mean: bool = False
    """Whether every prompt weighs the same, whichever others share its batch."""
    remedies: tuple[Remedy, ...] = ()

    @property
    def is_checked(self) -> bool:
        """Whether the person runs the version that the reader was held against, as far as is known."""
        return self.version in (None, self.trainer.version)


def objective_card(
    settings: Any, *, trainer: str | None = None, name: str | None = None, version: str | None = None
) -> Card:
    """Say what an update optimises.

    Args:
        settings: a configuration object (``GRPOConfig(...)``), or a mapping of settings, nested or with dotted keys.
        trainer: whose they are, as ``ada objective --trainer`` takes it; None tells it by the keys.
        name: for people; the class of the object if left out.
        version: of the trainer; that of the installed package for an object of its own if left out.

    Returns:
        The card; ``str(as_text(card))`` is what the command prints.

    Raises:
        SettingError: a value whose meaning is not known, or no known trainer.

    Example:
        >>> card = objective_card({"num_generations": 8, "scale_rewards": "none", "loss_type": "dr_grpo"})
        >>> card.trainer.name, card.nearest[0].name, card.is_mean
        ('trl', 'the mean pass rate', True)
    """
    name = name or ("settings" if isinstance(settings, Mapping) else type(settings).__name__)
    found = trainer_of(flat := flattened(settings), name, name=trainer)
    if version is None and type(settings).__module__.split(".")[0] == found.package:
        version = metadata.version(found.package)
    return make_card(Settings(found, flat, name), version=version)


def make_card(settings: Settings, *, version: str | None = None, file: str | None = None) -> Card:
    """Compute everything that a card says.

    Args:
        settings: of one trainer.
        version: that the person runs.
        file: where they stand, for commands.

    Raises:
        SettingError: a value whose meaning is not known.
    """
    update = settings.trainer.update(settings)
    common: dict[str, Any] = {
        "name": settings.where,
        "trainer": settings.trainer,
        "version": version,
        "settings": settings.read,
        "unknown_keys": tuple(settings.unknown),
        "update": update,
        "signal": tuple(share_signal(update, rate) for rate in PASS_RATES),
        "kept": tuple(share_kept(update, rate) for rate in PASS_RATES),
        "responses": tuple(responses(update, rate) for rate in PASS_RATES),
        "remedies": tuple(_remedies(settings, update, file or settings.where)),
    }
    if update.undetermined:
        return Card(**common)
    beside = relative(update, others=(EVEN,)) if update.couples_prompts else ()
    return Card(
        **common,
        weights=tuple(relative(update)),
        weights_beside=tuple(beside),
        curve=tuple(relative(update, FINE)),
        weight_at_half=weight(update, EVEN),
        nearest=tuple(nearest(update)),
        is_mean=_is_mean_in_any_batch(update),
    )


def counts_tokens_alike(update: Update) -> bool:
    """Whether no response's length changes what a token is multiplied by."""
    return update.reduction in _COUNT_ALIKE


def as_json(card: Card) -> dict[str, Any]:
    """Return every figure, and what it was made of. ``null``: not a number, or infinite."""
    found: Any = {
        "name": card.name,
        "trainer": card.trainer.name,
        "held_against": card.trainer.version,
        "evidence": card.trainer.evidence.value,
        "version": card.version,
        "is_checked": card.is_checked,
        "settings": card.settings,
        "unknown_keys": card.unknown_keys,
        "pass_rates": PASS_RATES,
        "weights": card.weights,
        "weights_beside_one_half": card.weights_beside,
        "weight_at_half": card.weight_at_half,
        "nearest": [asdict(named) for named in card.nearest],
        "signal": card.signal,
        "kept": card.kept,
        "responses": card.responses,
        "curve": {"pass_rates": FINE, "weights": card.curve},
        "is_mean": card.is_mean,
        "remedies": [asdict(remedy) for remedy in card.remedies],
        "update": asdict(card.update),
    }
    return dict(_plain(found))


def flattened(settings: Any) -> dict[str, Any]:
    """Return dotted keys of a mapping or an object, nested ones included.

    Raises:
        TypeError: it holds no settings.

    Example:
        >>> flattened({"actor": {"clip": 0.2}, "rollout.n": 8})
        {'actor.clip': 0.2, 'rollout.n': 8}
    """
    if (items := _items(settings)) is None:
        raise TypeError(f"a configuration object or a mapping is wanted; got {type(settings).__name__}")
    found: dict[str, Any] = {}
    for key, value in items.items():
        inner = _items(value) if isinstance(value, Mapping) or is_dataclass(value) else None
        if inner:
            found |= {f"{key}.{name}": item for name, item in flattened(value).items()}
        else:
            found[str(key)] = value
    return found


def _items(settings: Any) -> Mapping[Any, Any] | None:
    if isinstance(settings, Mapping):
        return settings
    if settings is None or isinstance(settings, type | str | bytes | int | float | Sequence):
        return None
    if is_dataclass(settings):
        return {
            field.name: getattr(settings, field.name) for field in fields(settings) if hasattr(settings, field.name)
        }
    return vars(settings) if hasattr(settings, "__dict__") else None


def _is_mean_in_any_batch(update: Update) -> bool:
    return not update.couples_prompts and not update.preference and is_mean(update)


def _remedies(settings: Settings, update: Update, file: str) -> list[Remedy]:
    """The smallest change that makes it the mean pass rate, and the smallest that makes tokens count alike, too."""
    is_mean_already = not update.undetermined and _is_mean_in_any_batch(update)
    if is_mean_already and counts_tokens_alike(update):
        return []
    found: list[Remedy] = []
    for changes in settings.trainer.remedies(settings):
        changed = settings.trainer.update(settings.changed(changes))
        is_alike = counts_tokens_alike(changed)
        if changed.undetermined or not _is_mean_in_any_batch(changed) or (is_mean_already and not is_alike):
            continue
        if not found or (is_alike and not found[-1].counts_tokens_alike):
            words = " ".join(settings.trainer.spelled(key, value) for key, value in changes.items())
            command = settings.trainer.command.format(file=file, changes=words)
            found.append(Remedy(dict(changes), command, is_alike))
            if is_alike:
                break
    return found


def _plain(value: Any) -> Any:
    """Spell what JSON has no form for."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


__all__ = ["TRAINERS", "Card", "Remedy", "as_json", "flattened", "make_card", "objective_card"]
