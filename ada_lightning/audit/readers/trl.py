"""TRL: ``log_completions=True`` writes ``completions/completions_<step>.parquet`` (read in TRL 1.16.0)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from ada_lightning.audit.records import Hole, Log, Options, Order, Row
from ada_lightning.audit.untrusted import Fields, RefusedFileError, key_of, parquet_rows, printable, shown, text_of

NAME = "TRL"
NEEDED = ("step", "prompt", "completion", "advantage")
EXTRAS = ("prompt_id", "reference", "num_tokens", "is_truncated", "policy_version")
"""Columns by which ``log_extra`` closes holes; see docs/audit.md. No rewards."""
_NO_ADVANTAGE = 1e-3
"""Of a group whose rewards are equal: the mean of G equal float32 rewards is off by at most 1e-7 of them, and TRL
divides by their spread plus 1e-4."""
_SAME_REWARD = 1e-6
"""Sums that are nearer, relative to their size, may be equal in the float32 that TRL adds up in."""
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

    A group is a run of consecutive rows with one prompt, cut at the group size. Where nobody gives that, it is the
    largest that divides all runs, and the logged advantages of each group must add up to 0. A reward is the weighted
    sum of the columns of rewards; see :func:`_reward_names`. Weights are not in the log: where ``Options.rewards`` has
    none, each counts 1 and the logged advantages must agree.

    Raises:
        RefusedFileError: a file cannot be read as this format, groups cannot be told apart, no column is a reward, or
            rewards and advantages contradict each other.
    """
    rows: list[Row] = []
    seen: set[str] = set()
    steps: set[int] = set()
    num_repeated = 0
    found: dict[str, bool] = {}
    for path in paths:
        columns, content = parquet_rows(path, options.limits)
        if missing := [name for name in NEEDED if name not in columns]:
            raise RefusedFileError(f"{shown(path)} lacks the columns {', '.join(missing)} that TRL writes")
        records = list(content)
        steps |= {Fields(record, shown(path)).need("step") for record in records[:1]}
        digest = key_of([[record["prompt"], record["completion"], str(record["advantage"])] for record in records])
        if digest in seen:  # a generation batch that several logged steps train on
            num_repeated += 1
            continue
        seen.add(digest)
        numbers = _numbers(records, columns)
        found |= {name: found.get(name, True) and is_whole for name, is_whole in numbers.items()}
        rows += _rows(records, list(options.rewards) or list(numbers), path, options)
        if len(rows) > options.limits.max_rows:
            raise RefusedFileError(f"more than {options.limits.max_rows} responses; give fewer steps")
    rows = _grouped(rows, options)
    names = _reward_names(rows, found, options) if rows else []
    rows = [_graded(row, names, options) for row in rows]
    remarks = [_about_rewards(names, found)]
    remarks += [f"{num_repeated} files repeat the rollout of an earlier step"] if num_repeated else []
    return Log(NAME, rows, _holes(rows, steps, options), Order.LAUNCH, remarks=remarks)


def _numbers(records: Sequence[dict[str, Any]], columns: Sequence[str]) -> dict[str, bool]:
    """Columns of numbers that may be rewards, and whether all values are whole.

    TRL has them between the completion and the advantage. Where none is there, the table was written anew, and all
    others may be.
    """
    between = columns[columns.index("completion") + 1 : columns.index("advantage")]
    others = [name for name in columns if name not in (*NEEDED, *EXTRAS)]
    return _of_numbers(records, between) or _of_numbers(records, others)


def _of_numbers(records: Sequence[dict[str, Any]], columns: Sequence[str]) -> dict[str, bool]:
    found = {}
    for name in columns:
        values = [value for record in records if (value := record[name]) is not None and value == value]
        is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        if name not in EXTRAS and values and is_number:
            found[name] = all(isinstance(value, int) for value in values)
    return found


def _reward_names(rows: Sequence[Row], found: Mapping[str, bool], options: Options) -> list[str]:
    """Say which columns of numbers are the rewards: the first ones that can be what the advantages were made of.

    TRL writes rewards as floats, and also whatever ``log_extra`` was given. So floats come first. Of these a
    column that is the same for all responses of every prompt says something of prompts, or is the reward of a log
    without any signal.

    Raises:
        RefusedFileError: none is, or a person named one that is not there.
    """
    listed = f"columns of numbers: {', '.join(map(printable, found)) or 'none'}"
    if unknown := [name for name in options.rewards if name not in found]:
        raise RefusedFileError(f"--reward {printable(unknown[0])} is no column of rewards in this log; {listed}")
    if options.rewards:
        return list(options.rewards)
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row.group_key)]
    refused = ""
    for is_whole in (False, True):
        candidates = [name for name in found if found[name] is is_whole]
        differing = [
            name
            for name in candidates
            if any(len({row.components[name] for row in group if name in row.components}) > 1 for group in groups)
        ]
        constant = [name for name in candidates if name not in differing]
        for names in (differing, constant if len(constant) == 1 else []):
            if names and not (place := _contradiction(groups, names)):
                return names
            if names:
                refused = refused or f"{place}: the sum of the columns {', '.join(map(printable, names))}"
    if refused:
        raise RefusedFileError(
            f"{refused} does not fit the logged advantages; name the rewards and their weights by "
            f"--reward NAME=WEIGHT; {listed}"
        )
    raise RefusedFileError(
        "it is unclear which column is the reward: none differs between the responses of a prompt; name it by "
        f"--reward; {listed}"
    )


def _contradiction(groups: Sequence[Sequence[Row]], names: Sequence[str]) -> str:
    """Say where the sum of columns cannot be what the advantages were made of; empty where it may be it everywhere.

    In a group the larger reward has the larger advantage. Where some advantages differ, some rewards do.
    """
    without_rewards = ""
    has_signal = False
    for group in groups:
        pairs = [(_sum(row, names, {}), row.advantage) for row in group]
        ordered = sorted((reward, gain) for reward, gain in pairs if reward is not None and gain is not None)
        if not ordered:
            continue
        (lowest, _), (highest, _) = ordered[0], ordered[-1]
        advantages = [gain for _, gain in ordered]
        spread = max(advantages) - min(advantages)
        if highest - lowest > _SAME_REWARD * max(abs(lowest), abs(highest)):
            has_signal = True
            if not spread or any(later < earlier - _NO_ADVANTAGE for earlier, later in pairwise(advantages)):
                return group[0].source
        elif spread > _NO_ADVANTAGE:
            without_rewards = without_rewards or group[0].source
    return "" if has_signal else without_rewards


def _about_rewards(names: Sequence[str], found: Mapping[str, bool]) -> str:
    others = [printable(name) for name in found if name not in names]
    text = f"the reward is the sum of {', '.join(map(printable, names))}"
    return text + (f"; other columns of numbers, which are not used: {', '.join(others)}" if others else "")


def _sum(row: Row, names: Sequence[str], weights: Mapping[str, float]) -> float | None:
    """Add columns up as TRL does: a weight is 1 by default, and a column without a value adds nothing."""
    known = [weights.get(name, 1.0) * row.components[name] for name in names if name in row.components]
    return sum(known) if known else None


def _graded(row: Row, names: Sequence[str], options: Options) -> Row:
    components = {printable(name): row.components[name] for name in names if name in row.components}
    return replace(row, reward=_sum(row, names, options.rewards), components=components)


def _rows(records: Sequence[dict[str, Any]], names: Sequence[str], path: Path, options: Options) -> list[Row]:
    """One row a response, without its reward; ``components`` has every column that may be a part of it."""
    found = []
    for index, record in enumerate(records):
        key = key_of(record["prompt"])
        fields = Fields(record, f"{shown(path)}, row {index}")
        text = text_of(record["completion"])
        truncated = fields.number("is_truncated")
        prompt = record.get("prompt_id")
        tokens = fields.count("num_tokens")
        found.append(
            Row(
                source=fields.where,
                step=fields.need("step"),
                group_key=f"{path}/{key}",
                sample_index=index,
                reward=None,
                prompt_key=key if prompt is None else key_of(prompt, record.get("reference")),
                policy_version=fields.whole("policy_version"),
                num_tokens=options.num_tokens(text) if tokens is None else tokens,
                num_characters=len(text),
                is_truncated=None if truncated is None else bool(truncated),
                advantage=fields.number("advantage"),
                components={name: value for name in names if (value := fields.number(name)) is not None},
            )
        )
    return found


def _grouped(rows: Sequence[Row], options: Options) -> list[Row]:
    """Cut the runs of consecutive rows with one prompt into groups.

    Raises:
        RefusedFileError: runs are no multiples of the given size, or the size that is found does not fit.
    """
    runs = [list(run) for _, run in groupby(rows, key=lambda row: row.group_key)]
    size = options.group_size or math.gcd(*map(len, runs)) or 1
    way_out = "give num_generations by --group-size"
    sizes = ", ".join(str(length) for length, _ in Counter(map(len, runs)).most_common(5))
    come = f"consecutive rows with one prompt come in runs of {sizes}"
    if wrong := next((run for run in runs if len(run) % size), None):
        raise RefusedFileError(f"{wrong[0].source}: {come}, which are no multiples of {size}; {way_out}")
    groups = [run[start : start + size] for run in runs for start in range(0, len(run), size)]
    for group in groups if not options.group_size else []:
        known = [row.advantage for row in group if row.advantage is not None]
        if abs(total := math.fsum(known)) > _NO_ADVANTAGE * len(known):
            raise RefusedFileError(
                f"{group[0].source}: {come}, so groups would be of {size}, but the advantages of this one add up to "
                f"{total:.3g} and not to 0; was the file cut, or put in another order? If not, {way_out}"
            )
    return [replace(row, group_key=str(number)) for number, group in enumerate(groups) for row in group]


def _holes(rows: Sequence[Row], steps: Collection[int], options: Options) -> list[Hole]:
    holes = [EVALUATION]
    if num_ties := _ties(rows):
        holes.append(
            Hole(
                "a part of the rewards",
                f"in {num_ties} groups responses of equal reward have different advantages, so something counted that "
                "has no column. Two reward functions with one name do this: only the last is logged",
                "another __name__ for each reward function",
            )
        )
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
    span = max(steps, default=0) - min(steps, default=1) + 1
    if span > len(steps):
        holes.append(
            Hole(
                f"{span - len(steps)} of {span} steps",
                "they have no file: with logging_steps above 1 a file has the last rollout before it was written, and "
                "none of those before",
                "logging_steps=1",
            )
        )
    return holes


def _ties(rows: Sequence[Row]) -> int:
    """How many groups have responses of equal reward whose advantages differ."""
    count = 0
    for _, group in groupby(rows, key=lambda row: row.group_key):
        by_reward: dict[float, list[float]] = {}
        for row in group:
            if row.reward is not None and row.advantage is not None:
                by_reward.setdefault(row.reward, []).append(row.advantage)
        count += any(max(found) - min(found) > _NO_ADVANTAGE for found in by_reward.values())
    return count
