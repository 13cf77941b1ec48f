"""TRL: ``log_completions=True`` writes ``completions/completions_<step>.parquet`` (read in TRL 1.16.0)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from ada_lightning.audit.readers.options import Options
from ada_lightning.audit.records import Hole, Log, Order, Row
from ada_lightning.audit.untrusted import Fields, RefusedFileError, key_of, parquet_rows, printable, shown, text_of

NAME = "TRL"
NEEDED = ("step", "prompt", "completion", "advantage")
EXTRAS = ("prompt_id", "reference", "num_tokens", "is_truncated", "policy_version")
"""Columns by which ``log_extra`` closes holes; see docs/audit.md. No rewards."""
_NO_ADVANTAGE = 1e-3
"""Of a group whose rewards are equal: the mean of G equal float32 rewards is off by at most 1e-7 of them, and TRL
divides by their spread plus 1e-4."""
RECORD = "a reward function that calls log_extra: the ten lines in docs/audit.md"
EVALUATION = Hole(
    "whether rows are of an evaluation",
    "an evaluation writes over the training rows of its step",
    "eval_strategy='no' while recording",
)


def files(folder: Path) -> list[Path]:
    """Return the files of completions in an output folder or its ``completions``."""
    return sorted([*folder.glob("completions_*.parquet"), *folder.glob("completions/completions_*.parquet")])


def read(paths: Sequence[Path], options: Options) -> Log:
    """Read tables of completions.

    A group is a run of consecutive rows with one prompt, cut at the group size. Its reward is the weighted sum of the
    columns between ``completion`` and ``advantage``; weights are not in the log, and where those of
    ``Options.rewards`` are not given, each counts 1 and the logged advantages must agree.

    Raises:
        RefusedFileError: a file cannot be read as this format, groups cannot be told apart, or rewards and advantages
            contradict each other.
    """
    rows: list[Row] = []
    seen: set[str] = set()
    num_repeated = 0
    names: list[str] = []
    for path in paths:
        columns, content = parquet_rows(path, options.limits)
        if missing := [name for name in NEEDED if name not in columns]:
            raise RefusedFileError(f"{shown(path)} lacks the columns {', '.join(missing)} that TRL writes")
        records = list(content)
        digest = key_of([[record["prompt"], record["completion"], str(record["advantage"])] for record in records])
        if digest in seen:  # a generation batch that several logged steps train on
            num_repeated += 1
            continue
        seen.add(digest)
        names = list(options.rewards) or _reward_names(records, columns)
        rows += _rows(records, names, path, options)
        if len(rows) > options.limits.max_rows:
            raise RefusedFileError(f"more than {options.limits.max_rows} responses; give fewer steps")
    if not options.rewards:
        _agree(rows, names)
    remarks = [f"{num_repeated} files repeat the rollout of an earlier step"] if num_repeated else []
    return Log(NAME, rows, _holes(rows, options), Order.LAUNCH, remarks=remarks)


def _reward_names(records: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[str]:
    """Columns of numbers between the completion and the advantage that are not all empty and no known extras."""
    between = columns[columns.index("completion") + 1 : columns.index("advantage")]
    found = []
    for name in between:
        values = [record[name] for record in records if record[name] is not None]
        is_number = all(isinstance(value, float) for value in values)
        if name not in EXTRAS and values and is_number and any(value == value for value in values):
            found.append(name)
    return found


def _rows(records: Sequence[dict[str, Any]], names: Sequence[str], path: Path, options: Options) -> list[Row]:
    keys = [key_of(record["prompt"]) for record in records]
    found = []
    for index, (record, group) in enumerate(zip(records, _groups(keys, path, options), strict=True)):
        fields = Fields(record, f"{shown(path)}, row {index}")
        parts = {name: fields.number(name) for name in names}
        known = {name: value for name, value in parts.items() if value is not None}
        text = text_of(record["completion"])
        truncated = fields.number("is_truncated")
        prompt = record.get("prompt_id")
        tokens = fields.count("num_tokens")
        found.append(
            Row(
                source=fields.where,
                step=fields.need("step"),
                group_key=f"{path.name}/{group}",
                sample_index=index,
                # As TRL adds them up: what a function does not apply to is left out, and nothing at all is no reward.
                reward=sum(options.rewards.get(name, 1.0) * value for name, value in known.items()) if known else None,
                prompt_key=keys[index] if prompt is None else key_of(prompt, record.get("reference")),
                policy_version=fields.whole("policy_version"),
                num_tokens=options.num_tokens(text) if tokens is None else tokens,
                num_characters=len(text),
                is_truncated=None if truncated is None else bool(truncated),
                advantage=fields.number("advantage"),
                components={printable(name): value for name, value in known.items()},
            )
        )
    return found


def _groups(keys: Sequence[str], path: Path, options: Options) -> list[int]:
    """Number of the group of each row."""
    runs = [len(list(run)) for _, run in groupby(keys)]
    size = options.group_size or min(runs, default=1)
    if any(run % size for run in runs):
        sizes = ", ".join(str(size) for size, _ in Counter(runs).most_common(5))
        raise RefusedFileError(
            f"{shown(path)}: consecutive rows with one prompt come in runs of {sizes}, which are no multiples of "
            f"{size}; give num_generations by --group-size"
        )
    return [index // size for index in range(len(keys))]


def _agree(rows: Sequence[Row], names: Sequence[str]) -> None:
    """Refuse sums of columns that do not order the responses of a group as their advantages do."""
    for _, group in groupby(rows, key=lambda row: row.group_key):
        pairs = [(row.reward, row.advantage) for row in group if row.reward is not None and row.advantage is not None]
        ordered = sorted(pairs)
        advantages = [advantage for _, advantage in ordered]
        differ = len({reward for reward, _ in pairs}) > 1
        if differ and any(later < earlier - _NO_ADVANTAGE for earlier, later in pairwise(advantages)):
            raise RefusedFileError(
                f"{rows[0].source}: the sum of the columns {', '.join(map(printable, names))} does not go with the "
                "logged advantages; name the rewards and their weights by --reward NAME=WEIGHT"
            )


def _holes(rows: Sequence[Row], options: Options) -> list[Hole]:
    holes = [EVALUATION]
    if any(row.num_tokens is None for row in rows):
        holes.append(Hole("token counts", "lengths are in characters", f"{RECORD}; or --tokenizer <tokenizer.json>"))
    elif options.tokenizer is not None:
        holes.append(
            Hole("token counts", "counted anew from the text, without special tokens: one or two too few", RECORD)
        )
    if any(row.is_truncated is None for row in rows):
        holes.append(
            Hole("why a response ended", "responses that the length limit cut cannot be told from others", RECORD)
        )
    if any(row.policy_version is None for row in rows):
        holes.append(
            Hole(
                "the policy's version",
                "responses that are older than their step count as of it",
                "num_iterations=1, steps_per_generation as gradient_accumulation_steps",
            )
        )
    steps = sorted({row.step for row in rows})
    if len(steps) > 1 and steps[-1] - steps[0] + 1 > len(steps):
        holes.append(
            Hole(
                "some steps",
                "a file has the last rollout before it was written, and none those before",
                "logging_steps=1",
            )
        )
    return holes
