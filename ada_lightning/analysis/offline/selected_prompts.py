"""Writes prompts with their pass rates, and those of them that are selected, so that a run can train on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ada_lightning.analysis.offline.response_store import prompt_text
from ada_lightning.core.records import Prompt
from ada_lightning.data.layouts import TEMPLATE_ARGUMENTS
from ada_lightning.run.files import replacing

PROMPTS_SCHEMA = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("position", pa.int64()),
        ("task", pa.string()),
        ("prompt", pa.large_string()),
        ("answer", pa.string()),
        ("columns", pa.large_string()),
        ("num_samples", pa.int64()),
        ("num_counted", pa.int64()),
        ("num_positive", pa.int64()),
        ("num_failed", pa.int64()),
        ("pass_rate", pa.float64()),
        ("mean_reward", pa.float64()),
        ("mean_tokens", pa.float64()),
        ("truncated_ratio", pa.float64()),
        ("is_selected", pa.bool_()),
    ]
)
"""One row per prompt. ``prompt``: the turns as ``role: content`` lines. ``answer``: text, or JSON of something else.
``columns``: JSON of the data set's other columns, null where the source has none. ``pass_rate`` and ``mean_reward``:
over ``num_counted`` responses, null without any."""


def write_prompts(folder: Path, prompts: Sequence[Prompt], outcomes: pd.DataFrame) -> None:
    """Write ``prompts.parquet``, and its selected rows to ``selected.parquet`` (what ``data.only`` reads)."""
    asked = [prompts[position] for position in outcomes.position]
    described = outcomes.assign(
        prompt=[prompt_text(prompt.messages) for prompt in asked],
        answer=[_as_text(prompt.reference.get("answer")) for prompt in asked],
        columns=[_as_json(prompt.reference.get("columns")) for prompt in asked],
        num_failed=[len(reasons) for reasons in outcomes.failures],
        mean_tokens=outcomes.num_tokens / outcomes.num_samples,
        truncated_ratio=outcomes.num_truncated / outcomes.num_samples,
    )
    table = pa.Table.from_pandas(described, schema=PROMPTS_SCHEMA, preserve_index=False).replace_schema_metadata()
    for name, part in (("prompts", table), ("selected", table.filter(table["is_selected"]))):
        with replacing(folder / f"{name}.parquet") as temporary:
            pq.write_table(part, temporary, compression="zstd")


def write_jsonl(target: Path, prompts: Sequence[Prompt], outcomes: pd.DataFrame) -> None:
    """Write the selected prompts as JSON lines for ``data=jsonl``: prompt, answer, the data's own columns, counts.

    ``prompt`` is what the model was asked, template and system prompt included: text, or messages where there is more
    than the user's turn. So neither may be set again by the run that trains on it.

    Where the reward needs more of a prompt than columns can hold (procedural tasks with a verifier of their own) there
    is no file afterwards, and ``data.only`` is the way.
    """
    chosen = [(prompts[row.position], row) for row in outcomes[outcomes.is_selected].itertuples()]
    if any(set(prompt.reference) - {"answer", "columns"} for prompt, _ in chosen):
        target.unlink(missing_ok=True)
        return
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8") as file:
        for prompt, outcome in chosen:
            file.write(json.dumps(_line(prompt, outcome), ensure_ascii=False) + "\n")


def _line(prompt: Prompt, outcome: Any) -> dict[str, Any]:
    messages = [dict(message) for message in prompt.messages]
    is_text = len(messages) == 1 and messages[0]["role"] == "user"
    answer = {"answer": prompt.reference["answer"]} if "answer" in prompt.reference else {}
    arguments = {TEMPLATE_ARGUMENTS: dict(prompt.template_arguments)} if prompt.template_arguments else {}
    return {
        **prompt.reference.get("columns", {}),
        **answer,
        **arguments,
        "prompt": messages[0]["content"] if is_text else messages,
        "prompt_id": prompt.prompt_id,
        "num_samples": outcome.num_samples,
        "num_positive": outcome.num_positive,
        "pass_rate": outcome.pass_rate,
    }


def _as_text(answer: Any) -> str | None:
    return answer if isinstance(answer, str) else _as_json(answer)


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)
