"""Converts states to JSON and back: tensors and arrays keep their type, numbers every digit. Compares settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

_TENSOR, _ARRAY, _FLOAT, _PAIRS = "_tensor", "_array", "_float", "_pairs"


def to_json(value: Any) -> Any:
    """Turn a state into what JSON has.

    Raises:
        TypeError: it holds something else than numbers, texts, tensors, lists and mappings.

    Example:
        >>> to_json({"a": (1, float("inf")), "b": {2: 3}})
        {'a': [1, {'_float': 'inf'}], 'b': {'_pairs': [[2, 3]]}}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_FLOAT: repr(float(value))}
    if isinstance(value, np.ndarray):
        return {_ARRAY: str(value.dtype), "values": to_json(value.tolist())}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: to_json(item) for key, item in value.items()}
        return {_PAIRS: [[to_json(key), to_json(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if hasattr(value, "detach"):
        return {_TENSOR: str(value.dtype).removeprefix("torch."), "values": to_json(value.detach().cpu().tolist())}
    raise TypeError(f"a {type(value).__name__} has no place in a state")


def from_json(value: Any) -> Any:
    """Restore :func:`to_json`; what was a tuple is a list.

    Example:
        >>> from_json(to_json({"a": (1, float("inf")), "b": {2: 3}}))
        {'a': [1, inf], 'b': {2: 3}}
    """
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if _FLOAT in value:
        return float(value[_FLOAT])
    if _PAIRS in value:
        return {from_json(key): from_json(item) for key, item in value[_PAIRS]}
    if _ARRAY in value:
        return np.array(from_json(value["values"]), dtype=value[_ARRAY])
    if _TENSOR in value:
        import torch

        return torch.tensor(from_json(value["values"]), dtype=getattr(torch, value[_TENSOR]))
    return {key: from_json(item) for key, item in value.items()}


def check_whole(state: Any, keys: Iterable[str]) -> None:
    """Refuse what is no state, or only a part of one.

    Raises:
        ValueError: it is no mapping, or has not all of the keys.

    Example:
        >>> check_whole({"step": 1}, ["step", "parts"])
        Traceback (most recent call last):
        ValueError: the state lacks parts: give all that state_dict() returned
    """
    if not isinstance(state, Mapping):
        raise ValueError(
            f"the state is a {type(state).__name__}: give the mapping that state_dict() returned; json.loads() reads a "
            "text"
        )
    if missing := [key for key in keys if key not in state]:
        raise ValueError(f"the state lacks {', '.join(missing)}: give all that state_dict() returned")


def changes(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield a line for each setting that differs, with old and new value; a part of another class is one line.

    Keys that only one of the two has are passed over: another version of this package may have more settings.

    Example:
        >>> list(changes({"seed": 3, "sampler": {"n_max": 8}}, {"seed": 4, "sampler": {"n_max": 8, "k_pos": 1}}))
        ['seed: 3 -> 4']
    """
    for key, now in new.items():
        was = old.get(key, now)
        if was == now or key == "_target_":
            continue
        same = isinstance(was, Mapping) and isinstance(now, Mapping) and _class(was) == _class(now)
        if same and (_class(now) or not prefix):  # below a part, a mapping without a class is one value
            yield from changes(was, now, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}: {_class(was) or repr(was)} -> {_class(now) or repr(now)}"


def _class(node: Any) -> str:
    """Name of a part's class; empty where the node is none. Its module may differ between versions."""
    return str(node["_target_"]).rpartition(".")[2] if isinstance(node, Mapping) and "_target_" in node else ""
