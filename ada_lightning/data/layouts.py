"""Which columns hold what, in the layouts that data sets for RL come in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ada_lightning.data.columns import has_column, lookup

_VERL_ANSWER = "reward_model.ground_truth"
_PROMPTS = ("prompt", "problem", "question")
_ANSWERS = ("answer", "ground_truth", "final_answer", "expected_answer", "solution")
"""``solution`` comes last: where there is an answer too, it is a worked solution."""

NUM_ROWS = 100
"""Rows that a layout is recognised by: the first may leave columns empty."""

TEMPLATE_ARGUMENTS = "chat_template_kwargs"
"""Column of TRL's layouts with what the chat template is given for that row alone."""
CHOICES = ("choices", "options", "endings")
BESIDE_THE_PROMPT = frozenset((*CHOICES, "context", "passage", "input", "tools", "image", "images"))
"""Columns that people would show to the model with the prompt."""

LAYOUT_COLUMNS = (
    *(*_PROMPTS, *_ANSWERS, "reward_model", "data_source", "completion", "messages"),
    *(TEMPLATE_ARGUMENTS, *BESIDE_THE_PROMPT),
)
"""Every column that is looked at, whatever rewards are given."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a row has its parts. Names may be dotted, see :func:`~ada_lightning.data.columns.lookup`."""

    name: str
    prompt: str
    """Text, or a list of messages."""
    answer: str | None
    """None where there is none, or where it is the assistant's last turn in ``prompt``."""
    task: str | None = None
    """Column that names the task; None where the source has one name for all."""
    solution: str | None = None
    """Column of worked solutions; None where there is none."""


def filled(first: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a row whose empty and missing columns are filled with the next rows' values.

    A layout is one for all rows: ``{"answer": null, "solution": "..."}`` on top of a file does not mean that answers
    are in ``solution``, nor does a first row without the key.

    Example:
        >>> filled({"answer": None, "solution": "so 2"}, [{"answer": "3", "solution": "so 3"}])
        {'answer': '3', 'solution': 'so 2'}
    """
    columns = dict(first)
    for row in rows:
        for name, value in row.items():
            if columns.get(name) is None or _is_less(columns, row, name):
                columns[name] = value
    return columns


def _is_less(columns: Mapping[str, Any], row: Mapping[str, Any], name: str) -> bool:
    """Whether verl's answer is missing in a column that has it in another row."""
    return name == "reward_model" and not has_column(columns, _VERL_ANSWER) and has_column(row, _VERL_ANSWER)


def detect_layout(columns: Mapping[str, Any]) -> Layout | None:
    """Recognise a layout by the columns of a row.

    - verl: ``prompt`` (messages), ``reward_model.ground_truth``, ``data_source``, ``extra_info``
    - TRL: ``prompt`` (text or messages) with columns for rewards; ``prompt`` and ``completion``; ``messages``, whose
      last turn is the answer
    - otherwise a column ``prompt``, ``problem`` or ``question``

    The answer is looked for under ``answer``, ``ground_truth``, ``final_answer``, ``expected_answer``, ``solution``.

    Returns:
        The layout, or None where no column can be the prompt.

    Example:
        >>> detect_layout({"question": "1 + 1 =", "answer": "2"})
        Layout(name='question and answer', prompt='question', answer='answer', task=None, solution=None)
    """
    answer = detect_answer(columns)
    if "prompt" in columns and has_column(columns, _VERL_ANSWER):
        return Layout("verl", "prompt", _VERL_ANSWER, "data_source" if "data_source" in columns else None)
    if "prompt" in columns and answer is None:
        if "completion" in columns:
            return Layout("TRL (prompt and completion)", "prompt", "completion")
        return Layout("TRL (prompt without an answer)", "prompt", None)
    for prompt in _PROMPTS:
        if prompt in columns:
            return Layout(f"{prompt} and {answer}" if answer else prompt, prompt, answer)
    if "messages" in columns and isinstance(lookup(columns, "messages"), (list, str)):
        return Layout("TRL (messages)", "messages", answer)
    return None


def detect_solution(columns: Mapping[str, Any], answer: str | None, *, is_pattern: bool) -> str | None:
    """Return the column of worked solutions; None where there is none.

    MATH, NuminaMath and OpenR1-Math name it ``solution``. GSM8K's ends with the answer, in the column of the answer.

    Args:
        columns: of a row.
        answer: column of the answer.
        is_pattern: whether the answer is only a part of what stands in its column.

    Example:
        >>> detect_solution({"problem": "", "solution": "", "answer": ""}, "answer", is_pattern=False)
        'solution'
        >>> detect_solution({"question": "", "answer": ""}, "answer", is_pattern=True)
        'answer'
    """
    return "solution" if "solution" in columns else answer if is_pattern else None


def detect_answer(columns: Mapping[str, Any]) -> str | None:
    """Return the column of the answer, one that holds something before one that does not; None where there is none."""
    answer = next((name for name in _ANSWERS if columns.get(name) is not None), None)
    return answer or next((name for name in _ANSWERS if name in columns), None)
