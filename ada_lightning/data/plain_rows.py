"""Rows of a table whose ids are told from their columns at once, the same as from the prompts they become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from ada_lightning.data.layouts import BESIDE_THE_PROMPT, TEMPLATE_ARGUMENTS
from ada_lightning.data.prompt_builder import ID_TAG, LAST_TURN, TURN_MARKS, PromptBuilder
from ada_lightning.data.prompts import SLOT, joined_turns, stable_hashes

_MAY_BE_MORE = f"role|{TURN_MARKS}|{LAST_TURN}"
"""Of texts that may be messages, or hold the markup of a template."""


@dataclass(slots=True)
class PlainRows:
    """Plain rows of a part of a table: a text and an answer that is text, in columns of their own."""

    places: NDArray[np.int64]
    """In the part. Shape ``(R,)``, as of the others."""
    id_keys: NDArray[np.uint64]
    """Ids of the prompts."""
    text_keys: NDArray[np.uint64]
    """As of :func:`~ada_lightning.data.prompts.text_key`."""
    answers: list[str]

    @classmethod
    def of(cls, batch: Any, builder: PromptBuilder) -> PlainRows | None:
        """Find them in a part of a table; None where the table or the settings allow none.

        Args:
            batch: of arrow.
            builder: would make the prompts.
        """
        import pyarrow.compute as pc

        prompt, answer = builder.layout.prompt, builder.layout.answer
        before, _, behind = builder.prompt_template.partition(SLOT)
        if answer is None or SLOT in behind or not _is_plain(batch.schema, builder):
            return None
        texts, answers = batch.column(prompt), batch.column(answer)
        is_more = pc.fill_null(pc.match_substring_regex(texts, _MAY_BE_MORE), True).to_numpy(zero_copy_only=False)
        listed, said = texts.to_pylist(), answers.to_pylist()
        rows = [row for row in np.flatnonzero(~is_more).tolist() if said[row] is not None and listed[row].strip()]
        asked, said = [listed[row] for row in rows], [said[row] for row in rows]
        system = () if builder.system_prompt is None else ({"role": "system", "content": builder.system_prompt},)
        begin = joined_turns((*system, {"role": "user", "content": before}))
        hashed = xxhash.xxh3_64_intdigest
        text_keys = np.array([hashed(f"{begin}{text}{behind}".encode()) for text in asked], dtype=np.uint64)
        return cls(np.array(rows, dtype=np.int64), stable_hashes(ID_TAG, asked, said), text_keys, said)


def _is_plain(schema: Any, builder: PromptBuilder) -> bool:
    from pyarrow import types

    of_text = {field.name for field in schema if types.is_string(field.type) or types.is_large_string(field.type)}
    others = [field.type for field in schema if field.name not in of_text]
    if not all(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) for kind in others):
        return False
    if builder.choices_column is not None or builder.prompt_pattern or builder.answer_pattern or builder.layout.task:
        return False
    looked_at = {TEMPLATE_ARGUMENTS, *BESIDE_THE_PROMPT}.intersection(schema.names)
    return not looked_at and {builder.layout.prompt, builder.layout.answer} <= of_text
