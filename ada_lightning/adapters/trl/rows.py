"""Kept rows, an absorber and fillers: groups of one size whose mean is 0, so that TRL's advantages are ours.

A filler is one masked end-of-sequence token. TRL subtracts the mean of a group's rewards; kept rows get their advantage
for a reward, and fillers share minus their sum, so the mean is 0 and nothing is subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ada_lightning.adapters.pools import Row


@dataclass(slots=True)
class Drawn:
    """A response as it was drawn: what a row's payload is."""

    completion_ids: list[int]
    logprobs: list[float] | None
    """Of the engine; None where there is none beside the trainer."""
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
        self, prompt_ids: list[int], kept: Sequence[Row], *, scale: float, group_size: int, eos_token_id: int
    ) -> None:
        """Append a prompt's kept rows, then fillers.

        Args:
            prompt_ids: of the prompt.
            kept: with :class:`Drawn` payloads; one without a token has nothing to train.
            scale: from an advantage over the core's denominator to one over TRL's.
            group_size: rows of every group.
            eos_token_id: of fillers.

        Raises:
            ValueError: more rows than the group holds beside an absorber.
        """
        rows = [row for row in kept if row.payload.completion_ids]
        num_fillers = group_size - len(rows)
        if num_fillers < 1:
            raise ValueError(
                f"a prompt keeps {len(rows)} rows, and groups have {group_size} with one that balances them; raise "
                "num_generations, or keep fewer"
            )
        advantages = [row.advantage * scale for row in rows]
        for row, advantage in zip(rows, advantages, strict=True):
            drawn: Drawn = row.payload
            self._add(prompt_ids, drawn.completion_ids, drawn.logprobs, 1, advantage, drawn.extra)
        for _ in range(num_fillers):
            self._add(prompt_ids, [eos_token_id], [0.0], 0, -sum(advantages) / num_fillers)

    def add_response(self, prompt_ids: list[int], drawn: Drawn, reward: float, eos_token_id: int) -> None:
        """Append a response of an evaluation, with its reward."""
        self._add(prompt_ids, drawn.completion_ids or [eos_token_id], drawn.logprobs, 1, reward, drawn.extra)

    def output(self, *, with_logprobs: bool) -> dict[str, Any]:
        """Return the columns as TRL wants them.

        Args:
            with_logprobs: those of an engine beside the trainer, of which every response must have some.

        Raises:
            ValueError: one has none.
        """
        if with_logprobs and None in self.logprobs:
            raise ValueError("use_vllm=True corrects by the engine's log-probabilities, and a response came without")
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
