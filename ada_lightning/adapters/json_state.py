"""Converts the state of parts to JSON and back: tensors and arrays keep their type, numbers every digit."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
