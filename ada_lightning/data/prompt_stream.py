"""Prompts of a stream, encoded and checked when a step takes them. None is kept once its step is done."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ada_lightning.core.records import Prompt
from ada_lightning.data.encoded_table import NO_ANSWER, TOO_LONG, Check
from ada_lightning.data.encoder import PromptEncoder, RefusedPromptError
from ada_lightning.data.streaming import MOST_UNUSABLE, StreamingSource

_REFUSED = "refused by the chat template"
_NOT_CHOSEN = "not chosen by the curriculum"


class PromptStream:
    """Takes prompts from a stream.

    Args:
        source: of the rows.
        encoder: makes tokens of prompts.
        check: says which cannot be graded; None where the reward has no opinion.
        num_first: prompts that are read at once, fewer where there are no more.

    Raises:
        ValueError: none of the first rows can be used, or a row cannot be read.
    """

    def __init__(self, source: StreamingSource, encoder: PromptEncoder, *, check: Check | None, num_first: int) -> None:
        self.source = source
        self.by_task: Counter[str] = Counter()
        """Usable prompts so far."""
        self._encoder, self._check = encoder, check
        source.heldout_prompts()
        self._last_usable = num_heldout_rows = source.rows.num_taken
        """Rows until the last usable one."""
        self._ready: deque[Prompt] = deque()
        """Read and not taken: the first ones."""
        self._ready.extend(self.take(num_first))
        if not self._ready:
            raise ValueError(source.nothing_usable(since=num_heldout_rows))
        self.first = self._ready[0]
        """The first usable prompt of the stream."""

    @property
    def known(self) -> list[Prompt]:
        """The prompts that are read and not taken."""
        return list(self._ready)

    @property
    def has_ended(self) -> bool:
        """Whether no row is left to read."""
        return self.source.rows.has_ended

    def take(self, number: int, at_hand: Collection[str] = ()) -> list[Prompt]:
        """Return the next usable prompts with tokens, fewer where the stream ends.

        Args:
            number: how many.
            at_hand: ids of prompts whose steps are not done: rows that repeat one are dropped.

        Raises:
            ValueError: a row cannot be read, or too many rows in a row cannot be used.
        """
        taken = [self._ready.popleft() for _ in range(min(number, len(self._ready)))]
        if len(taken) < number and not self.has_ended:
            self.source.rows.note_place()
        seen = {*at_hand, *(prompt.prompt_id for prompt in taken)}
        while len(taken) < number and not self.has_ended:
            taken += self._usable(self._read(number - len(taken), seen))
            if self._num_unusable > MOST_UNUSABLE:
                raise ValueError(self.source.nothing_usable(since=self._last_usable))
        return taken

    def note_not_chosen(self, number: int) -> None:
        """Count candidates that a curriculum has passed over: they do not come again."""
        if number:
            self.source.report.drop(_NOT_CHOSEN, count=number)

    def ended_after(self, num_steps: int, num_left: int, prompts_per_step: int) -> str:
        """Say that the stream has ended, after how many prompts and steps."""
        return (
            f"the stream {self.source.reader.origin} has ended: its {self.source.rows.num_taken} rows had "
            f"{self.by_task.total()} usable prompts, enough for {num_steps} steps. {num_left} are left over, and a "
            f"step takes data.prompts_per_step = {prompts_per_step}"
        )

    def state_dict(self, at_hand: Sequence[Prompt]) -> dict[str, Any]:
        """The place in the stream, and the prompts that were read and whose steps are not done, without tokens."""
        groups = {"first": [self.first], "ready": self._ready, "at_hand": at_hand}
        return {
            "source": json.dumps(self.source.state_dict()),
            "by_task": dict(self.by_task),
            **{name: json.dumps([_plain(prompt) for prompt in prompts]) for name, prompts in groups.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> list[Prompt]:
        """Restore :meth:`state_dict`, and return the prompts that were at hand, with tokens.

        Raises:
            ValueError: as :meth:`~ada_lightning.data.streaming.StreamingSource.load_state_dict`.
        """
        self.source.load_state_dict(json.loads(state["source"]))
        self.by_task.clear()
        self.by_task.update(state["by_task"])
        self._last_usable = self.source.rows.num_taken
        (self.first,) = self._restored(state["first"])
        self._ready = deque(self._restored(state["ready"]))
        return self._restored(state["at_hand"])

    @property
    def _num_unusable(self) -> int:
        """Rows since the last usable one."""
        return self.source.rows.num_taken - self._last_usable

    def _read(self, number: int, seen: set[str]) -> list[tuple[str, Prompt]]:
        """Return so many prompts of the next rows, fewer at the limit for rows, and where each stands."""
        found: list[tuple[str, Prompt]] = []
        while len(found) < number and self._num_unusable <= MOST_UNUSABLE:
            if (row := self.source.next_prompt()) is None:
                break
            where, prompt = row
            if prompt is not None and prompt.prompt_id in seen:
                self.source.report.drop("duplicates")
            elif prompt is not None:
                seen.add(prompt.prompt_id)
                found.append((where, prompt))
        return found

    def _usable(self, read: Sequence[tuple[str, Prompt]]) -> list[Prompt]:
        """Return those that the chat template takes, that fit and that can be graded, with tokens."""
        report, fitting = self.source.report, []
        for where, prompt in read:
            try:
                encoded = replace(prompt, prompt_ids=self._encoder.token_ids(prompt))
            except RefusedPromptError as error:
                report.drop(_REFUSED, where, error.reason)
                continue
            if len(encoded.prompt_ids) > (limit := self._encoder.max_prompt_tokens):
                report.drop(TOO_LONG, where, f"more than data.max_prompt_tokens = {limit}")
            else:
                fitting.append((where, encoded))
        errors = self._check([prompt for _, prompt in fitting]) if self._check and fitting else {}
        for index, message in errors.items():
            report.drop(NO_ANSWER, fitting[index][0], message)
        usable = [prompt for index, (_, prompt) in enumerate(fitting) if index not in errors]
        if usable:
            self._last_usable = self.source.rows.num_taken
            self.by_task.update(prompt.task for prompt in usable)
        return usable

    def _restored(self, plain: str) -> list[Prompt]:
        prompts = [Prompt(**{**each, "messages": tuple(each["messages"])}) for each in json.loads(plain)]
        return [replace(prompt, prompt_ids=self._encoder.token_ids(prompt)) for prompt in prompts]


def _plain(prompt: Prompt) -> dict[str, Any]:
    names = ("prompt_id", "messages", "reference", "task", "template_arguments")
    return {name: getattr(prompt, name) for name in names}
