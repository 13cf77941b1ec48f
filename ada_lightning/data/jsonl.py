"""Prompts from a file with one JSON object a line."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ada_lightning.data.prompts import chat_messages, stable_hash
from ada_lightning.types import Prompt

_SLOT = "{prompt}"


class JsonlSource:
    """Reads prompts and answers from JSON lines, and holds some out.

    Which prompts are held out depends on the seed and on each prompt's content, not on its line: lines may be
    reordered, and most of a split survives when lines are added. Empty lines are skipped.
    ``reference`` of a prompt is ``{"answer": ..., "columns": {...}}``: the answer column as it is in the file, and all
    columns but the prompt for a reward function of your own.

    Args:
        path: JSON-lines file, read as UTF-8; relative to where the program runs.
        num_heldout: prompts held out: of ``heldout_path`` where it is given, else of ``path``; 0 for none.
        seed: of the choice of held-out prompts.
        prompt_column: key of the prompt's text.
        answer_column: key of the answer: text or a number.
        heldout_path: file of its own for held-out prompts; None takes them from ``path``. Training prompts that occur
            in it are dropped, counted and warned about.
        system_prompt: first turn of every prompt; None for none.
        prompt_template: the user's turn, with ``{prompt}`` where the text goes; other braces mean themselves.

    Raises:
        ValueError: a negative count, one column for both, or a template without ``{prompt}``.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        num_heldout: int,
        seed: int,
        prompt_column: str = "prompt",
        answer_column: str = "answer",
        heldout_path: str | Path | None = None,
        system_prompt: str | None = None,
        prompt_template: str = _SLOT,
    ) -> None:
        if num_heldout < 0:
            raise ValueError(f"data.source.num_heldout must be at least 0; got {num_heldout}")
        if prompt_column == answer_column:
            raise ValueError(f"data.source.prompt_column and answer_column are both {prompt_column!r}")
        if _SLOT not in prompt_template:
            raise ValueError(
                f"data.source.prompt_template must say where the prompt goes with {_SLOT}; got {prompt_template!r}"
            )
        if heldout_path is not None and num_heldout == 0:
            raise ValueError(
                f"data.source.heldout_path = {str(heldout_path)!r} is given but num_heldout is 0; set num_heldout to "
                "the number of its prompts to evaluate on"
            )
        self.path = Path(path)
        self.num_heldout = num_heldout
        self.seed = seed
        self.prompt_column = prompt_column
        self.answer_column = answer_column
        self.heldout_path = None if heldout_path is None else Path(heldout_path)
        self.system_prompt = system_prompt
        self.prompt_template = prompt_template
        self._split: tuple[list[Prompt], list[Prompt]] | None = None

    def train_prompts(self) -> Sequence[Prompt]:
        """Prompts to learn from, in the order of the file."""
        return self._read_once()[0]

    def heldout_prompts(self) -> Sequence[Prompt]:
        """Prompts to evaluate on; no training prompt has the same text."""
        return self._read_once()[1]

    def check(self) -> None:
        """Read the files. No model is needed for it.

        Raises:
            ValueError: a file is missing, empty or not UTF-8, a line is no JSON object or lacks a column, or there are
                too few prompts for the split.
        """
        self._read_once()

    def _read_once(self) -> tuple[list[Prompt], list[Prompt]]:
        if self._split is None:
            prompts = self._read(self.path)
            candidates = prompts if self.heldout_path is None else self._read(self.heldout_path)
            if len(candidates) < self.num_heldout:
                raise ValueError(
                    f"data.source.num_heldout = {self.num_heldout}, but {self.heldout_path or self.path} has "
                    f"{len(candidates)} distinct prompts"
                )
            by_hash = sorted(candidates, key=lambda prompt: stable_hash(self.seed, prompt.prompt_id))
            heldout = by_hash[: self.num_heldout]
            excluded = {_text(prompt) for prompt in (heldout if self.heldout_path is None else candidates)}
            train = [prompt for prompt in prompts if _text(prompt) not in excluded]
            if not train:
                raise ValueError(
                    f"no training prompt is left of the {len(prompts)} in {self.path} after holding out "
                    f"{self.num_heldout}; lower data.source.num_heldout or bring more data"
                )
            if self.heldout_path is not None and len(train) < len(prompts):
                warnings.warn(
                    f"{len(prompts) - len(train)} training prompts of {self.path} occur in {self.heldout_path} too and "
                    "are left out of training",
                    stacklevel=3,
                )
            self._split = train, heldout
        return self._split

    def _read(self, path: Path) -> list[Prompt]:
        try:
            # Not splitlines(): JSON text may hold characters such as U+2028 that it would split at.
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read prompts from {path} ({path.absolute()}): {error}") from error
        by_text: dict[str, Prompt] = {}
        num_rows = 0
        for number, line in enumerate(lines, start=1):
            if line.strip():
                num_rows += 1
                prompt = self._parse(line, f"{path}, line {number}")
                by_text.setdefault(_text(prompt), prompt)
        if not by_text:
            raise ValueError(f"{path} holds no prompts; it needs one JSON object a line")
        if len(by_text) < num_rows:
            warnings.warn(
                f"{num_rows - len(by_text)} of {num_rows} prompts in {path} repeat an earlier one and are dropped",
                stacklevel=4,
            )
        return list(by_text.values())

    def _parse(self, line: str, where: str) -> Prompt:
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{where}: not valid JSON at column {error.colno}: {error.msg}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{where}: a JSON object with columns is needed; found {type(row).__name__}")
        text = self._column(row, "prompt_column", (str,), where)
        answer = self._column(row, "answer_column", (str, int, float), where)
        if not text.strip():
            raise ValueError(f"{where}: the prompt is empty")
        return Prompt(
            prompt_id=stable_hash("jsonl", text, answer),
            messages=chat_messages(self.prompt_template.replace(_SLOT, text), self.system_prompt),
            reference={"answer": answer, "columns": {k: v for k, v in row.items() if k != self.prompt_column}},
            task="jsonl",
        )

    def _column(self, row: dict[str, Any], setting: str, types: tuple[type, ...], where: str) -> Any:
        name = getattr(self, setting)
        if name not in row:
            found = ", ".join(sorted(row)) or "none"
            raise ValueError(f"{where}: no column {name!r}; columns found: {found}; set data.source.{setting}")
        value = row[name]
        if isinstance(value, bool) or not isinstance(value, types):
            wanted = " or ".join("number" if t is float else {str: "text", int: "integer"}[t] for t in types)
            raise ValueError(f"{where}: column {name!r} must be {wanted}; found {type(value).__name__}")
        return value


def _text(prompt: Prompt) -> str:
    return prompt.messages[-1]["content"]
