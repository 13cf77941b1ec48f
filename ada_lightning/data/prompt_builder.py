"""From one row of a data set to a prompt."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ada_lightning.core.records import Prompt
from ada_lightning.data.answers import UnusableAnswerError, identity, read_answer
from ada_lightning.data.columns import StoredJson, as_json_like, has_column, lookup, parsed_json
from ada_lightning.data.formats import NOT_FOR_TEMPLATES
from ada_lightning.data.layouts import BESIDE_THE_PROMPT, CHOICES, TEMPLATE_ARGUMENTS, Layout
from ada_lightning.data.messages import read_turns
from ada_lightning.data.prompts import SLOT, stable_hash


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
            f"holds the text {said!r}, which is both one choice and the index of another, counted from 0; store places "
            "as integers, or answers as labels"
        )
    if not (found := of_text or of_index):
        raise ValueError(f"holds {said[:80]!r}, which is not one of the choices, their labels or their indices from 0")
    return found


ID_TAG = "jsonl"
"""First part of every hash: histories of runs on JSON lines are keyed by it, whatever file the prompts move to."""


_CALCULATOR = re.compile(r"<<[^<>\n]*=[^<>\n]*>>")
"""What GSM8K has next to each sum."""
_NO_ARGUMENTS: Mapping[str, Any] = {}
"""One for all prompts without: garbage collection looks at each object of a long list."""


class UnusableRowError(ValueError):
    """A row that is no prompt. ``reason`` is what it is counted as."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


TURN_MARKS = (
    r"<\|(?:im_start|im_end|start_header_id|end_header_id|eot_id|user|assistant|system|end|endoftext|begin_of_text)\|>"
    r"|\[/?INST\]|<</?SYS>>|</?(?:start|end)_of_turn>"
    "|<\uff5c(?:User|Assistant)\uff5c>"
)
LAST_TURN = r"\n(?:Assistant|ASSISTANT|### Response):"
_MARKUP = re.compile(rf"{TURN_MARKS}|{LAST_TURN}[^\n]*(?:\n<think>)?\s*\Z")
"""Where a text is a rendered conversation already."""


@dataclass(slots=True)
class PromptBuilder:
    """Puts the parts of a row into a :class:`~ada_lightning.core.records.Prompt`.

    ``reference`` is ``{"answer": ..., "solution": ..., "columns": {...}}``: answer and worked solution, absent if there
    is none, and all columns except the prompt, for rewards that want more. The id is a hash of the prompt's text and
    the answer, not of solution, template or system prompt. If the prompt is a list of messages, pattern and template
    are for its last user turn and ``system_prompt`` replaces its system turn. An assistant's turn at its end is the
    answer if no column has one. If a column has one, it is the beginning of the response, as in TRL. The last turn of a
    column ``messages`` is always a whole answer, and is taken off.
    """

    layout: Layout
    prompt_pattern: re.Pattern[str] | None
    """Its first group is what is taken of the prompt."""
    answer_pattern: re.Pattern[str] | None
    """The same for an answer that is text."""
    needs_answer: bool
    """False accepts rows without an answer, and answers that are lists, objects or booleans."""
    keep_columns: Collection[str] | None
    """Columns for the reward; None keeps all."""
    system_prompt: str | None
    """First turn; None leaves what the row has."""
    prompt_template: str
    """The user's turn, with ``{prompt}`` where the text goes."""
    choices_column: str | None
    """Put behind the question; the answer becomes the label of one."""
    task: str
    """Of every prompt whose layout names no column for it."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Type by column that cannot travel to reward workers."""
    changes: set[str] = field(default_factory=set)
    """What was not taken as it stands in the last row, in words."""

    def build(self, columns: Mapping[str, Any]) -> Prompt:
        """Return the prompt of one row.

        Raises:
            UnusableRowError: a column is missing, the prompt is empty or no text, the answer cannot be one, or one of
                them is not Unicode.
            ValueError: a column that was asked for cannot travel to reward workers.
        """
        self.changes = set()
        turns, last_turn = self._turns(columns)
        own_system = turns.pop(0)["content"] if turns[0]["role"] == "system" else None
        position = max((index for index, turn in enumerate(turns) if turn["role"] == "user"), default=None)
        if position is None:
            raise UnusableRowError("empty", "the prompt has no turn of the user")
        text = _matched(self.prompt_pattern, turns[position]["content"], "prompt_pattern", "empty")
        if not text.strip():
            raise UnusableRowError("empty", "the prompt is empty")
        answer = self._answer(columns, last_turn)
        if self.choices_column is not None:
            text, answer = self._with_choices(columns, text, answer)
        arguments = self._template_arguments(columns)
        self._look_beside(columns, text)
        turns[position]["content"] = text
        is_text_alone = len(turns) == 1 and (own_system is None or self.system_prompt is not None)
        asked = text if is_text_alone else [own_system, *([turn["role"], turn["content"]] for turn in turns)]
        turns[position]["content"] = self.prompt_template.replace(SLOT, text)
        system = own_system if self.system_prompt is None else self.system_prompt
        if system != own_system and own_system is not None:
            self.changes.add("a system turn is replaced by data.source.system_prompt")
        first = [] if system is None else [{"role": "system", "content": system}]
        reference = {} if answer is None else {"answer": answer}
        if solution := self._solution(columns):
            reference["solution"] = solution
        try:
            prompt_id = stable_hash(ID_TAG, asked, identity(answer), *([arguments] if arguments else []))
        except UnicodeEncodeError as error:
            found = str(error.object)[error.start]
            raise UnusableRowError("not Unicode", f"its text holds {found!r}, half of a character") from error
        return Prompt(
            prompt_id=prompt_id,
            messages=(*first, *turns),
            reference={**reference, "columns": self._columns(columns)},
            task=self._task(columns),
            template_arguments=arguments,
        )

    def _turns(self, columns: Mapping[str, Any]) -> tuple[list[dict[str, str]], str | None]:
        """Return the turns, and that of the assistant which was taken off their end."""
        layout = self.layout
        value = _found(columns, layout.prompt, "prompt_column", "empty")
        try:
            turns = read_turns(value, self.changes)
        except ValueError as error:
            raise UnusableRowError("empty", f"column {layout.prompt!r} {error}") from error
        last_turn = None
        if turns[-1]["role"] == "assistant":
            if layout.prompt != "messages" and (layout.answer is not None or not self.needs_answer):
                self.changes.add("a turn of the assistant at the end of the prompt is what responses continue")
                return turns, None
            last_turn = turns.pop()["content"]
            if layout.answer is not None:
                self.changes.add(f"the assistant's last turn is taken off: the answer is in {layout.answer!r}")
        if not turns:
            raise UnusableRowError("empty", "the prompt has no turn of the user")
        return turns, last_turn

    def _answer(self, columns: Mapping[str, Any], last_turn: str | None) -> Any:
        name, reason = self.layout.answer, "unusable answer"
        if name is None and last_turn is None:
            if not self.needs_answer:
                return None
            raise UnusableRowError(reason, "no answer: the last turn is not the assistant's")
        value: Any = last_turn
        if name is not None:
            if not self.needs_answer and not has_column(columns, name):
                return None
            try:
                value = read_answer(columns, name, self.changes, needs_answer=self.needs_answer)
            except KeyError as error:
                raise UnusableRowError(reason, f"{error.args[0]}; set data.source.answer_column") from error
            except UnusableAnswerError as error:
                raise UnusableRowError(reason, f"column {name!r} {error}") from error
        return _matched(self.answer_pattern, value, "answer_pattern", reason) if isinstance(value, str) else value

    def _solution(self, columns: Mapping[str, Any]) -> str:
        """Return the worked solution of a row; empty where it has none."""
        name = self.layout.solution
        value = lookup(columns, name) if name is not None and has_column(columns, name) else None
        text = value.value() if isinstance(value, StoredJson) else value
        if not isinstance(text, str):
            return ""
        plain = _CALCULATOR.sub("", text)
        if plain != text:
            self.changes.add("calculator annotations (<<2*3=6>>) are left out of worked solutions")
        return plain.strip()

    def _with_choices(self, columns: Mapping[str, Any], text: str, answer: Any) -> tuple[str, Any]:
        name = str(self.choices_column)
        value = _found(columns, name, "choices_column", "empty")
        try:
            choices = read_choices(value)
        except ValueError as error:
            raise UnusableRowError("empty", f"column {name!r} {error}") from error
        try:
            label = None if answer is None else label_of(answer, choices)
        except ValueError as error:
            raise UnusableRowError("unusable answer", f"column {self.layout.answer!r} {error}") from error
        return with_choices(text, choices), label

    def _template_arguments(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the row's own arguments of the chat template; a table fills those that it lacks with None."""
        if not (given := columns.get(TEMPLATE_ARGUMENTS)):
            return _NO_ARGUMENTS
        found = parsed_json(given) if isinstance(given, str) else given
        if not isinstance(found, Mapping):
            raise UnusableRowError("empty", f"column {TEMPLATE_ARGUMENTS!r} must be an object; found {given!r:.80}")
        arguments = {name: as_json_like(found[name]) for name in sorted(found) if found[name] is not None}
        if taken := [name for name in arguments if name in NOT_FOR_TEMPLATES]:
            raise UnusableRowError("empty", f"column {TEMPLATE_ARGUMENTS!r} sets {taken[0]!r}, which is no variable")
        return arguments

    def _look_beside(self, columns: Mapping[str, Any], text: str) -> None:
        """Say what people would expect to be shown to the model, and is not; and what is shown twice."""
        if _MARKUP.search(text):
            self.changes.add(
                "a text holds the markup of a chat template, and the template puts its own around it; data/format="
                "plain leaves it alone, data.source.prompt_pattern takes the question out of it"
            )
        for name in BESIDE_THE_PROMPT.intersection(columns):
            if not (value := columns[name]) or name in (
                self.layout.prompt,
                self.layout.answer,
                self.choices_column,
            ):
                continue
            inside = value.get("text") if isinstance(value, Mapping) else value  # ARC has texts and labels
            texts = inside if isinstance(inside, list) else [inside]
            if not all(isinstance(item, str) and item in text for item in texts):
                way_out = f"; data.source.choices_column={name} does it" if name in CHOICES else ""
                self.changes.add(f"column {name!r} is not shown to the model{way_out}")

    def _columns(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        kept = {}
        for name, value in columns.items():
            if name == self.layout.prompt or (self.keep_columns is not None and name not in self.keep_columns):
                continue
            try:
                kept[name] = as_json_like(value)
            except TypeError as error:
                if self.keep_columns is not None:
                    raise ValueError(
                        f"column {name!r} holds {error}, which reward workers cannot be given; leave it out of "
                        "data.source.keep_columns"
                    ) from error
                self.left_out.setdefault(name, str(error))
        return kept

    def _task(self, columns: Mapping[str, Any]) -> str:
        name = self.layout.task
        if name is None:
            return self.task
        found = lookup(columns, name) if has_column(columns, name) else None
        if found is None:
            self.changes.add(f"column {name!r} is empty: the task is {self.task!r}")
            return self.task
        return str(as_json_like(found))


def _found(columns: Mapping[str, Any], name: str, setting: str, reason: str) -> Any:
    try:
        return lookup(columns, name)
    except KeyError as error:
        raise UnusableRowError(reason, f"{error.args[0]}; set data.source.{setting}") from error


def _matched(pattern: re.Pattern[str] | None, text: str, setting: str, reason: str) -> str:
    if pattern is None:
        return text
    match = pattern.search(text)
    if match is None or match[1] is None:
        raise UnusableRowError(reason, f"data.source.{setting} = {pattern.pattern!r} finds nothing in {text[:80]!r}")
    return match[1]
