"""Reference answers as data sets write them."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from typing import Any

from ada_lightning.data.columns import StoredJson, as_json_like, lookup
from ada_lightning.data.messages import read_turns

_EXACT = 2**53
"""From here on a float does not hold every whole number."""
_STORED_DIGITS = 10
"""Decimals to which ``datasets`` writes floats as JSON."""
_PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d{1,9})?(?<!\.0)")
"""Numbers that look the same as texts and as numbers, whoever wrote them."""


class UnusableAnswerError(ValueError):
    """What stands in the column cannot be an answer; the message goes on after its name."""


def read_answer(columns: Mapping[str, Any], name: str, changes: set[str], *, needs_answer: bool) -> Any:
    """Return the answer of a row: text or a number, the same in whichever format the row is stored.

    A whole number is an int, also where a table has made a float of it. A list of one answer is that answer; a
    completion in messages is its last turn. Without ``needs_answer`` lists, objects and booleans stay what they are.

    Args:
        columns: a row.
        name: column of the answer, which may be dotted.
        changes: what was not taken as it stands is entered here, in words.
        needs_answer: False takes answers of any type.

    Raises:
        KeyError: there is no such column.
        UnusableAnswerError: it is of another type, or something that the row's format cannot hold exactly.
    """
    value = lookup(columns, name)
    root = columns.get(name.partition(".")[0]) if name not in columns else None
    is_stored = isinstance(value, StoredJson) or isinstance(root, StoredJson)
    if isinstance(root, str) and not is_stored:
        changes.add(f"column {name.partition('.')[0]!r} holds JSON text, which is parsed")
    if isinstance(value, StoredJson):
        value = _unstored(value, changes, needs_answer=needs_answer)
    if _is_completion(value):
        return _last_turn(value)
    value = _plain(value)
    if needs_answer and isinstance(value, list) and len(value) == 1 and not isinstance(value[0], (list, dict)):
        changes.add("answers in lists of one element are taken out of the list")
        value = value[0]
    if isinstance(value, float):
        return _number(value, is_stored=is_stored)
    if not needs_answer or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise UnusableAnswerError(f"must be text or a number; found {_described(value, name)}")


def identity(answer: Any) -> Any:
    """Return what an answer is hashed as: a number as its text, which is what a CSV file has of it.

    Example:
        >>> identity(7), identity(0.5), identity("007"), identity(True)
        ('7', '0.5', '007', True)
    """
    return str(answer) if isinstance(answer, (int, float)) and not isinstance(answer, bool) else answer


def _is_completion(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(turn, Mapping) and "role" in turn for turn in value)
    )


def _last_turn(completion: Any) -> str:
    try:
        return read_turns(completion)[-1]["content"]
    except ValueError as error:
        raise UnusableAnswerError(str(error)) from error


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        raise UnusableAnswerError(
            f"holds a point in time, {value}, which has no one spelling (datasets makes such of texts like "
            "2024-01-31); store the answers as text"
        )
    try:
        return as_json_like(value)
    except TypeError as error:
        raise UnusableAnswerError(f"holds {error}, which reward workers cannot be given") from error


def _number(value: float, *, is_stored: bool) -> int | float:
    if not math.isfinite(value):
        raise UnusableAnswerError(f"must be text or a number; found {'NaN' if value != value else value}")
    if value.is_integer() and abs(value) >= _EXACT:
        raise UnusableAnswerError(
            f"holds {value!r}, a float that is too large to be exact, so digits may be lost; store large "
            "numbers as text"
        )
    if is_stored and len(repr(value).partition(".")[2]) >= _STORED_DIGITS:
        raise UnusableAnswerError(
            f"holds {value!r} in a column of JSON, where datasets cuts numbers to {_STORED_DIGITS} decimals; store the "
            "answers as text"
        )
    return int(value) if value.is_integer() else value


def _unstored(value: StoredJson, changes: set[str], *, needs_answer: bool) -> Any:
    """Return what a stored answer can only be; refuse what a text and a value both can be."""
    found = value.value()
    if isinstance(found, str) or not needs_answer or _is_completion(found):
        return found
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not _PLAIN_NUMBER.fullmatch(value):
        raise UnusableAnswerError(
            f"holds {str(value)[:80]!r} in a column of JSON, where a text that looks so cannot be told from "
            f"{_KINDS.get(type(found), 'a number')}; give the files that it was made from, or store the answers as text"
        )
    changes.add("answers in a column of JSON may be numbers or texts of numbers, and are read as text")
    return str(value)


_KINDS = {bool: "a truth value", list: "a list", dict: "an object"}


def _described(value: Any, name: str) -> str:
    kind = "nothing" if value is None else type(value).__name__
    if isinstance(value, list):
        return (
            f"{kind} of {len(value)}; if one of them is the answer, name it with data.source.answer_column={name}.0 or "
            f"{name}.<key or index>; needs_answer=false is for a reward that reads all of it"
        )
    if isinstance(value, dict):
        return (
            f"{kind}; name an element with data.source.answer_column={name}.<key or index>, or set needs_answer=false "
            "for a reward that reads all of it"
        )
    return kind
