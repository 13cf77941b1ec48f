"""Kept rows, an absorber and fillers: groups of one size whose mean is 0, so that TRL's advantages are ours.

A filler is one masked end-of-sequence token. TRL subtracts the mean of a group's rewards; kept rows get their advantage
for a reward, and fillers share minus their sum, so the mean is 0 and nothing is subtracted.
Rows of the data set are found by their prompt, which is all that TRL gives a rollout function.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from ada_lightning.adapters.pools import Row


@dataclass(slots=True)
class Drawn:
    """A response as it was drawn: what a row's payload is."""

    completion_ids: list[int]
    logprobs: list[float] | None
    """Of the engine; None if the trainer generates itself."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What reward functions logged of it, by column."""


@dataclass(slots=True)
class Rows:
    """What a rollout function returns, column by column."""

    prompt_ids: list[list[int]] = field(default_factory=list)
    completion_ids: list[list[int]] = field(default_factory=list)
    logprobs: list[list[float] | None] = field(default_factory=list)
    env_mask: list[list[int]] = field(default_factory=list)
    ada: list[float] = field(default_factory=list)
    ada_extra: list[dict[str, Any]] = field(default_factory=list)

    def add_group(
        self, parts: Sequence[tuple[list[int], Sequence[Row]]], *, scale: float, group_size: int, eos_token_id: int
    ) -> None:
        """Append a prompt's kept rows, then fillers.

        Args:
            parts: tokens of the prompt, and kept rows with :class:`Drawn` payloads, of which one without a token has
                nothing to train; the same of the prompt with its hint, where it was drawn again.
            scale: from an advantage over the core's denominator to one over TRL's.
            group_size: rows of every group.
            eos_token_id: of fillers.

        Raises:
            ValueError: more rows than the group holds together with an absorber.
        """
        rows = [(ids, row) for ids, kept in parts for row in kept if row.payload.completion_ids]
        num_fillers = group_size - len(rows)
        if num_fillers < 1:
            raise ValueError(
                f"a prompt keeps {len(rows)} rows, and groups have {group_size} with one that balances them; raise "
                "num_generations, or keep fewer"
            )
        advantages = [row.advantage * scale for _, row in rows]
        for (ids, row), advantage in zip(rows, advantages, strict=True):
            drawn: Drawn = row.payload
            self._add(ids, drawn.completion_ids, drawn.logprobs, 1, advantage, drawn.extra)
        for _ in range(num_fillers):
            self._add(parts[0][0], [eos_token_id], [0.0], 0, -sum(advantages) / num_fillers)

    def add_response(self, prompt_ids: list[int], drawn: Drawn, reward: float, eos_token_id: int) -> None:
        """Append a response of an evaluation, with its reward."""
        self._add(prompt_ids, drawn.completion_ids or [eos_token_id], drawn.logprobs, 1, reward, drawn.extra)

    def output(self, *, with_logprobs: bool) -> dict[str, Any]:
        """Return the columns as TRL wants them.

        Args:
            with_logprobs: those of an engine apart from the trainer; every response must have them.

        Raises:
            ValueError: one has none.
        """
        if with_logprobs and None in self.logprobs:
            raise ValueError("use_vllm=True corrects by the engine's log-probabilities, but a response has none")
        return {
            "prompt_ids": self.prompt_ids,
            "completion_ids": self.completion_ids,
            "logprobs": self.logprobs if with_logprobs else None,
            "env_mask": self.env_mask,
            "ada": self.ada,
            "ada_extra": self.ada_extra,
        }

    def _add(
        self,
        prompt_ids: list[int],
        ids: list[int],
        logprobs: list[float] | None,
        mask: int,
        reward: float,
        extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.prompt_ids.append(list(prompt_ids))
        self.completion_ids.append(list(ids))
        self.logprobs.append(logprobs)
        self.env_mask.append([mask] * len(ids))
        self.ada.append(float(reward))
        self.ada_extra.append(dict(extra))


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

    def column(self, name: str) -> dict[str, Any]:
        """What rows have in a column, by id; without those that have nothing.

        Raises:
            ValueError: there is no such column.
        """
        if not any(name in row for row in self.by_id.values()):
            raise ValueError(
                f"the data set has no column {name!r}; it has {', '.join(next(iter(self.by_id.values())))}"
            )
        return {prompt_id: row[name] for prompt_id, row in self.by_id.items() if row.get(name) is not None}

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
