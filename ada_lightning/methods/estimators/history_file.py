"""Pass rates known before a run: ``{prompt_id: [positives, responses]}`` as JSON, or measured ones as Parquet."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ada_lightning.core.checks import refuse
from ada_lightning.core.prompt_columns import ids_of
from ada_lightning.core.records import Prompt

HistoryCounts = Mapping[str, tuple[float, float]]
"""(positives, responses) by prompt id; not whole numbers where they have faded."""

COLUMNS = ("prompt_id", "num_positive", "num_samples")
"""What is read of a Parquet file of measured pass rates; its ``pass_rate`` is the ratio of the last two."""

_SHOWN = 3
"""Wrong entries that a message spells out."""


class HistoryFile:
    """The counts of one file, read and checked at construction.

    Args:
        path: of the file, Parquet if its name ends so and JSON otherwise; None is a history without prompts, and
            :meth:`check_prompts` then has nothing to say.

        errors: what is wrong with other arguments of whoever reads it.

    Raises:
        ValueError: the file cannot be read, or holds something else than counts by prompt id, or no prompt; or there
            are other errors. All in one message.
    """

    def __init__(self, path: str | Path | None, errors: Sequence[str] = ()) -> None:
        self.path = path
        self.counts: HistoryCounts = {}
        try:
            self.counts = {} if path is None else _checked(Path(path))
        except ValueError as error:
            errors = [*errors, str(error)]
        refuse(*errors)

    def check_prompts(self, prompts: Sequence[Prompt], *, others: str = "the others start from the prior") -> None:
        """Compare the file with the training prompts, and print how many of them it knows.

        Args:
            prompts: to train on.
            others: what is said of those that it does not know.

        Raises:
            ValueError: it knows none of them.
        """
        if self.path is None:
            return
        num_known = sum(prompt_id in self.counts for prompt_id in ids_of(prompts))
        if num_known == 0:
            raise ValueError(
                f"estimator.history_file {self.path} knows none of the {len(prompts)} training prompts: it is a "
                "history file from another data set; leave it out (estimator.history_file=null) or give the one of "
                "this data"
            )
        rest = "" if num_known == len(prompts) else f"; {others}"
        print(f"history: {num_known} of {len(prompts)} training prompts known from {self.path}{rest}", flush=True)


def write_history(path: Path, counts: HistoryCounts) -> None:
    """Write counts so that another run can start from them (``estimator.history_file``); whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp{os.getpid()}")
    rows = {prompt_id: [positives, responses] for prompt_id, (positives, responses) in counts.items()}
    temporary.write_text(json.dumps(rows) + "\n", encoding="utf-8")
    temporary.replace(path)


def _checked(path: Path) -> dict[str, tuple[float, float]]:
    try:
        rows = _read_parquet(path) if path.suffix == ".parquet" else _read_json(path)
    except OSError as error:
        raise ValueError(
            f"estimator.history_file {path} cannot be read ({error.strerror or error}); give the path of a run's "
            "history.json or of measured pass rates, or leave it out: estimator.history_file=null"
        ) from error
    way_out = _WAY_OUT_PARQUET if path.suffix == ".parquet" else _WAY_OUT
    if not isinstance(rows, dict) or not rows:
        what = "no prompt" if rows == {} else type(rows).__name__
        raise ValueError(f"estimator.history_file {path} holds {what} at the top; {way_out}")
    wrong = [f"{prompt_id}: {json.dumps(row)}" for prompt_id, row in rows.items() if not _is_counts(row)]
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        shown = ", ".join(wrong[:_SHOWN])
        raise ValueError(f"estimator.history_file {path} has entries that are not counts ({shown}{more}); {way_out}")
    return {prompt_id: (float(positives), float(responses)) for prompt_id, (positives, responses) in rows.items()}


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # neither JSON nor UTF-8
        raise ValueError(f"estimator.history_file {path} is not JSON ({error}); {_WAY_OUT}") from error


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    """Return rows as in the JSON file. A prompt that was measured twice counts with both measurements."""
    from pyarrow import ArrowInvalid, parquet

    with path.open("rb") as file:
        try:
            table = parquet.read_table(file)
        except ArrowInvalid as error:
            raise ValueError(f"estimator.history_file {path} is not Parquet ({error}); {_WAY_OUT_PARQUET}") from error
    if missing := [name for name in COLUMNS if name not in table.column_names]:
        raise ValueError(
            f"estimator.history_file {path} has no column {', '.join(missing)} (its columns: "
            f"{', '.join(table.column_names) or 'none'}); {_WAY_OUT_PARQUET}"
        )
    rows: dict[str, list[Any]] = {}
    for prompt_id, *counts in zip(*(table[name].to_pylist() for name in COLUMNS), strict=True):
        earlier = rows.get(str(prompt_id))
        is_sum = earlier is not None and _is_counts(earlier) and _is_counts(counts)
        rows[str(prompt_id)] = [a + b for a, b in zip(earlier or (), counts, strict=True)] if is_sum else counts
    return rows


_WAY_OUT_PARQUET = (
    "it must have the columns prompt_id, num_positive and num_samples, one row per prompt, as prepare.py writes it; or "
    "leave it out: estimator.history_file=null"
)
_WAY_OUT = (
    'it must be {"prompt id": [positives, responses], ...} with 0 <= positives <= responses, as a run writes to its '
    "history.json; or leave it out: estimator.history_file=null"
)


def _is_counts(row: Any) -> bool:
    return (
        isinstance(row, list)
        and len(row) == 2
        and all(isinstance(number, int | float) and not isinstance(number, bool) for number in row)
        and 0 <= row[0] <= row[1] < math.inf
    )
