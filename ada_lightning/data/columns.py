"""Values inside rows: dotted names, JSON kept as text, and which values can be sent to reward workers."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

_PLAIN = frozenset((str, int, float, bool, type(None)))
"""Types whose values travel as they are; what inherits from them is looked at."""


class StoredJson(str):
    """A value of an Arrow column of JSON, as the text that is stored.

    ``datasets`` makes such a column where values differ in type or keys, and stores a text that is JSON already as it
    stands: the text ``7`` and the number 7 look the same afterwards. Whoever reads one decides what it can be.
    """

    __slots__ = ()

    def value(self) -> Any:
        """Return what the text says; itself where it is no JSON, or ``null``, which Arrow has a null of its own for.

        Example:
            >>> StoredJson('"a"').value(), StoredJson("[1]").value(), StoredJson("007").value()
            ('a', [1], '007')
        """
        value = parsed_json(self)
        return str(self) if value is None else value


def parsed_json(text: str) -> Any:
    """Return what a text says as JSON; None where it is none."""
    try:
        return json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return None


def lookup(columns: Mapping[str, Any], name: str) -> Any:
    """Return the value of a column, or of what is inside one.

    Args:
        columns: a row.
        name: a column; or, dot by dot, a key of an object or an index into a list inside it. A column whose own name
            has the dots comes first. An object or list may be stored as JSON text.

    Raises:
        KeyError: the name does not exist; the argument of the error lists what exists.

    Example:
        >>> lookup({"reward_model": {"ground_truth": "4"}, "final": ["5"]}, "reward_model.ground_truth")
        '4'
        >>> lookup({"final": ["5"]}, "final.0")
        '5'
    """
    if name in columns:
        return columns[name]
    value: Any = columns
    for depth, part in enumerate(parts := name.split(".")):
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            value = parsed_json(value)
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            raise KeyError(f"no column {name!r}; {_what_is_there(value, '.'.join(parts[:depth]))}")
    return value


def has_column(columns: Mapping[str, Any], name: str) -> bool:
    """Whether :func:`lookup` finds something."""
    try:
        lookup(columns, name)
    except KeyError:
        return False
    return True


def as_json_like(value: Any) -> Any:
    """Turn a value into dicts, lists, text, numbers, booleans and None, which pickle small and everywhere.

    Dates and times become ISO 8601 text, durations seconds, decimals and UUIDs text, arrays lists, stored JSON what it
    says.

    Raises:
        TypeError: bytes (images and audio are stored as such), or an object of another kind.

    Example:
        >>> as_json_like({"day": datetime.date(2025, 1, 31), "score": decimal.Decimal("0.50")})
        {'day': '2025-01-31', 'score': '0.50'}
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, StoredJson):
        return value.value()
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, Mapping):
        return {str(key): as_json_like(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [as_json_like(item) for item in value]
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if callable(to_list := getattr(value, "tolist", None)):  # numpy arrays and scalars
        return as_json_like(to_list())
    raise TypeError(type(value).__name__)


def _no_json(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _what_is_there(value: Any, inside: str) -> str:
    if isinstance(value, Mapping):
        keys = ", ".join(sorted(map(str, value))) or "none"
        return f"keys of {inside!r}: {keys}" if inside else f"columns found: {keys}"
    return f"{inside!r} is {f'a list of {len(value)}' if isinstance(value, list) else type(value).__name__}"
