"""Which trainer a configuration belongs to: told by its keys, or named."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ada_lightning.objective.readers import ms_swift, openrlhf, trl, verl
from ada_lightning.objective.settings import SettingError, Trainer

TRAINERS: Mapping[str, Trainer] = {
    trainer.name: trainer for trainer in (trl.TRAINER, verl.TRAINER, openrlhf.TRAINER, ms_swift.TRAINER)
}
"""By the names that ``--trainer`` takes."""


def trainer_of(
    settings: Mapping[str, Any], where: str, *, name: str | None = None, program: Sequence[str] = ()
) -> Trainer:
    """Return the trainer whose keys these are.

    Args:
        settings: by dotted key.
        where: the file, for messages.
        name: of the trainer; None finds it.
        program: words of a command before its settings.

    Raises:
        SettingError: no such name; no trainer's keys, or those of several.
    """
    if name is not None:
        if name not in TRAINERS:
            raise SettingError(f"there is no reader for {name!r}; readers: {', '.join(TRAINERS)}")
        return TRAINERS[name]
    words = {part for word in program for part in re.split(r"[./]", word)}
    scores = {name: _score(trainer, settings, words) for name, trainer in TRAINERS.items()}
    best = max(scores.values())
    found = [name for name, score in scores.items() if score == best]
    if best == 0 or len(found) > 1:
        what = "no key tells whose configuration this is" if best == 0 else "the keys fit several trainers"
        raise SettingError(f"{where}: {what}; name the trainer by --trainer {'|'.join(found)}")
    return TRAINERS[found[0]]


def _score(trainer: Trainer, settings: Mapping[str, Any], words: set[str]) -> float:
    """Share of the keys that the trainer knows; 0 if none of them is its own. A command's own words decide."""
    if words & trainer.marks:
        return 2.0
    if not any(key in trainer.marks for key in settings):
        return 0.0
    return sum(trainer.knows(key) for key in settings) / len(settings)
