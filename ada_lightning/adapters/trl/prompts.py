"""A trainer's data set by prompt: ids that outlive a run, and the way back from what a rollout function sees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any


class PromptRows:
    """The rows of a data set in TRL's format, by id and by what their prompt says.

    TRL gives a rollout function prompts and nothing else of their rows, so a row is found by its prompt.

    Args:
        rows: each with ``prompt``, a text or messages, and any columns that the reward asks for. A column that a row
            lacks is None there, as in a data set made of the rows.
        id_column: that names a row; None makes a name of all that stands in it.

    Raises:
        ValueError: no rows, one without a prompt, or two with the same prompt or name.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], id_column: str | None = None) -> None:
        self.by_id: dict[str, dict[str, Any]] = {}
        self._ids: dict[str, str] = {}
        for number, row in enumerate(rows):
            if not row.get("prompt"):
                raise ValueError(f"row {number} of the data set has no prompt")
            key = _key(row["prompt"])
            if key in self._ids:
                raise ValueError(
                    f"row {number} of the data set has the prompt of an earlier one: TRL's rollout function sees "
                    "prompts alone, so their references could not be told apart; leave one out"
                )
            self._ids[key] = prompt_id = _hash(key, row) if id_column is None else str(row[id_column])
            if prompt_id in self.by_id:
                raise ValueError(f"row {number} of the data set has the {id_column} of an earlier one, {prompt_id!r}")
            self.by_id[prompt_id] = dict(row)
        if not self.by_id:
            raise ValueError("the data set has no rows")
        columns = {name: None for row in self.by_id.values() for name in row}
        self.by_id = {prompt_id: columns | row for prompt_id, row in self.by_id.items()}

    def id_of(self, prompt: Any) -> str | None:
        """Return the id of the row with this prompt; None where there is none."""
        return self._ids.get(_key(prompt))

    def texts(self) -> dict[str, str]:
        """What prompts say, by id."""
        return {prompt_id: _text(row["prompt"]) for prompt_id, row in self.by_id.items()}


def _key(prompt: Any) -> str:
    """The same for the same content, however a data set spells messages (order of keys, keys without a value)."""
    if isinstance(prompt, str):
        return prompt
    return json.dumps(
        [{k: v for k, v in turn.items() if v is not None} for turn in prompt], sort_keys=True, default=str
    )


def _hash(key: str, row: Mapping[str, Any]) -> str:
    others = {name: value for name, value in row.items() if name != "prompt"}
    content = json.dumps([key, others], sort_keys=True, default=str)
    return blake2b(content.encode(), digest_size=8).hexdigest()


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(str(turn.get("content")) for turn in prompt)
