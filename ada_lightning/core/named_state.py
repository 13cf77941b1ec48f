"""What a part remembers, with the name of its class: another class would misread it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ada_lightning.core.protocols import Part

_CLASS = "_class"


def named_state(part: Part) -> dict[str, Any]:
    """Return the part's state for a checkpoint, with the name of its class in it.

    Example:
        >>> from ada_lightning.methods.estimators import EmaEstimator
        >>> named_state(EmaEstimator())
        {'counts': {}, '_class': 'EmaEstimator'}
    """
    return part.state_dict() | {_CLASS: type(part).__name__}


def load_named_state(part: Part, saved: Mapping[str, Any], *, setting: str) -> None:
    """Restore :func:`named_state`.

    A run may go on with other settings, but a part cannot go on with what one of another class remembers: two
    estimators may call different numbers by the same name. Where the other one remembers nothing yet, this one begins
    as in a new run.

    Args:
        part: of this run.
        saved: from the checkpoint; empty where it holds nothing for this part, which then begins as in a new run.
        setting: that chooses the part, for the message.

    Raises:
        ValueError: what is saved is another class's.
    """
    check_named_state(type(part).__name__, saved, setting=setting)
    state = dict(saved)
    is_own = state.pop(_CLASS, type(part).__name__) == type(part).__name__
    if state and is_own:
        part.load_state_dict(state)


def check_named_state(class_name: str, saved: Mapping[str, Any], *, setting: str) -> None:
    """Refuse what a part of another class remembers; tensors may be without values.

    Args:
        class_name: of this run's part.
        saved: as of :func:`load_named_state`.
        setting: that chooses the part, for the message.

    Raises:
        ValueError: as of :func:`load_named_state`.
    """
    state = dict(saved)
    earlier = state.pop(_CLASS, class_name)
    if earlier != class_name and not _is_empty(state):
        raise ValueError(
            f"{setting}: this run's checkpoint holds what {earlier} remembers, and {class_name} cannot read it; "
            f"continue with {setting} as the run was started ({earlier}), or start a new run"
        )


def _is_empty(value: Any) -> bool:
    """Whether nothing is remembered in it: no number but 0, nothing in any list."""
    if isinstance(value, Mapping):
        return all(_is_empty(item) for item in value.values())
    if hasattr(value, "numel"):
        return value.numel() == 0
    return not value
