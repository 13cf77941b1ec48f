"""Questions with choices: the choices behind the question, and the letter of the right one as the answer."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Any

from ada_lightning.data.columns import StoredJson, parsed_json


def read_choices(value: Any) -> dict[str, str]:
    """Return the choices by label: a list is labelled A, B, ...; ARC's objects of ``text`` and ``label`` have theirs.

    Raises:
        ValueError: something else, or no choices.

    Example:
        >>> read_choices(["red", "blue"]), read_choices({"text": ["x", "y"], "label": ["1", "2"]})
        ({'A': 'red', 'B': 'blue'}, {'1': 'x', '2': 'y'})
    """
    if isinstance(value, str):
        value = value.value() if isinstance(value, StoredJson) else parsed_json(value)
    texts, labels = value, list(string.ascii_uppercase)
    if isinstance(value, Mapping):
        texts, labels = value.get("text"), value.get("label") or labels
    if not isinstance(texts, list) or not 0 < len(texts) <= len(labels):
        raise ValueError(f"must be a list of up to {len(labels)} choices; found {value!r:.80}")
    return {str(label): str(text) for label, text in zip(labels, texts, strict=False)}


def with_choices(text: str, choices: Mapping[str, str]) -> str:
    """Return a question with its choices, a line each.

    Example:
        >>> print(with_choices("Which?", {"A": "red", "B": "B) blue"}))
        Which?
        A. red
        B) blue
    """
    lines = [
        choice if re.match(rf"\(?{re.escape(label)}[).:]", choice) else f"{label}. {choice}"
        for label, choice in choices.items()
    ]
    return "\n".join([text, *lines])


def label_of(answer: Any, choices: Mapping[str, str]) -> str:
    """Return the label that an answer names: a label, the text of a choice, or an index from 0.

    Raises:
        ValueError: it is none of them.

    Example:
        >>> label_of(1, {"A": "red", "B": "blue"}), label_of("red", {"A": "red", "B": "blue"})
        ('B', 'A')
    """
    said = str(answer)
    found = [label for label, choice in choices.items() if said in (label, choice)]
    if not found and said.isdecimal() and int(said) < len(choices):
        found = [list(choices)[int(said)]]
    if not found:
        raise ValueError(f"holds {said[:80]!r}, which is none of the choices, nor their labels or places from 0")
    return found[0]
