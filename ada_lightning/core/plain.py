"""Pools as primitives and back: checkpoints load nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ada_lightning.core.episode import Episode, Turn
from ada_lightning.core.records import Belief, Prompt, Response, ResponsePool
from ada_lightning.core.stopping.rule import StoppingRule

_TYPE = "_type"


def to_plain(value: Any) -> Any:
    """Turn a pool, and all that is in it, into dictionaries, lists, tuples and primitives.

    Example:
        >>> to_plain(Prompt("a", ()))
        {'_type': 'Prompt', 'prompt_id': 'a', 'messages': (), 'reference': {}, 'task': '', 'prompt_ids': ()}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {_TYPE: type(value).__name__} | {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(to_plain(item) for item in value)
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    return value


def from_plain(plain: Any) -> Any:
    """Restore :func:`to_plain`.

    Raises:
        ValueError: something of a type that is no part of a pool.

    Example:
        >>> from_plain({"_type": "Belief", "alpha": 1.0, "beta": 3.0}).mean
        0.25
    """
    if isinstance(plain, Mapping):
        items = {key: from_plain(item) for key, item in plain.items() if key != _TYPE}
        return _made(plain[_TYPE], items) if _TYPE in plain else items
    if isinstance(plain, tuple):
        return tuple(from_plain(item) for item in plain)
    if isinstance(plain, list):
        return [from_plain(item) for item in plain]
    return plain


def _made(name: str, items: Mapping[str, Any]) -> Any:
    """Make what a pool holds; of stopping rules those whose modules the run has imported are known."""
    rules: list[type] = [StoppingRule]
    for rule in rules:  # grows while it is walked through
        rules += rule.__subclasses__()
    known = {kind.__name__: kind for kind in (Belief, Episode, Prompt, Response, ResponsePool, Turn, *rules)}
    if name not in known:
        raise ValueError(
            f"the checkpoint holds a {name}, which is neither part of a pool nor a stopping rule of this run's "
            "sampler; continue with the sampler of the run or start a new one"
        )
    return known[name](**items)
