"""What a data set tells about a prompt besides the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ada_lightning.core.records import Prompt


def sample_columns(prompt: Prompt) -> dict[str, Any]:
    """Return the sample's columns by name, ``answer`` among them: the answer column under whatever name it has.

    Sources put the columns into ``reference["columns"]`` and the reference answer into ``reference["answer"]``.

    Example:
        >>> sample_columns(Prompt("id", (), {"answer": 12, "columns": {"solution": 12, "level": 3}}))
        {'solution': 12, 'level': 3, 'answer': 12}
    """
    columns: Mapping[str, Any] = prompt.reference.get("columns", {})
    named = dict(columns)
    if "answer" in prompt.reference:
        named["answer"] = prompt.reference["answer"]
    return named
