"""Questions with choices: the choices behind the question, and the letter of the right one as the answer."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Any

from ada_lightning.data.columns import StoredJson, parsed_json


def read_choices(value: Any) -> dict[str, str]:
    """Return the choices by label: a list is labelled A, B, ...; ARC's objects of ``text`` and ``label`` have theirs.

    So have MedQA's objects with a label for each text.

    Raises:
        ValueError: something else, or no choices.

    Example:
        >>> read_choices(["red", "blue"]), read_choices({"text": ["x", "y"], "label": ["1", "2"]})
        ({'A': 'red', 'B': 'blue'}, {'1': 'x', '2': 'y'})
    """
    found: Any = value
    if isinstance(value, str):
        found = value.value() if isinstance(value, StoredJson) else parsed_json(value)
    texts, labels = found, list(string.ascii_uppercase)
    if isinstance(found, Mapping):
        if isinstance(found.get("text"), list):
            texts, labels = found["text"], found.get("label") or labels
        else:  # a table has None for labels that a row lacks
            labels = [label for label in found if found[label] is not None]
            texts = [found[label] for label in labels]
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

    What can be a label is one. An integer is an index before it is a text: MMLU's choices may be numbers.

    Raises:
        ValueError: it is none of them, or a text that is one choice and the index of another.

    Example:
        >>> label_of(1, {"A": "red", "B": "blue"}), label_of("red", {"A": "red", "B": "blue"})
        ('B', 'A')
        >>> label_of(1, {"A": "1", "B": "2"}), label_of(2, {"A": "1", "B": "2"})
        ('B', 'B')
    """
    said = str(answer)
    if said in choices:
        return said
    of_text = next((label for label, choice in choices.items() if choice == said), None)
    of_index = list(choices)[int(said)] if said.isdecimal() and int(said) < len(choices) else None
    if isinstance(answer, int) and of_index:
        return of_index
    if of_text and of_index and of_text != of_index:
        raise ValueError(
            f"holds the text {said!r}, which is one choice and the place of another, counted from 0; store places as "
            "integers, or answers as labels"
        )
    if not (found := of_text or of_index):
        raise ValueError(f"holds {said[:80]!r}, which is none of the choices, nor their labels or places from 0")
    return found
