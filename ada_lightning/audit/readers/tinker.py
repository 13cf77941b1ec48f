"""tinker-cookbook: ``iteration_*/train_rollout_summaries.jsonl``, schema 1 (read in tinker-cookbook 0.6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ada_lightning.audit.records import Hole, Log, Options, Order, Row
from ada_lightning.audit.untrusted import Fields, RefusedFileError, json_lines, shown

NAME = "tinker-cookbook"
TAG = "prompt_id="
"""Begins the tag of an environment group that names its prompt."""
_PATTERN = "train*rollout_summaries.jsonl"


def files(folder: Path) -> list[Path]:
    """Return the summaries in a folder of a run or of an iteration."""
    return sorted([*folder.glob(_PATTERN), *folder.glob(f"*/{_PATTERN}")])


def matches(record: dict[str, Any]) -> bool:
    """Whether a line is of this format."""
    return {"schema_version", "group_idx", "traj_idx", "total_reward"} <= record.keys()


def read(paths: Sequence[Path], options: Options) -> Log:
    """Read rollout summaries of the training split; a prompt is known by a tag ``prompt_id=...`` of its group.

    Raises:
        RefusedFileError: a file cannot be read as this format, or is of another schema.
    """
    rows: list[Row] = []
    num_other = 0
    for path in paths:
        for number, record in json_lines(path, options.limits):
            fields = Fields(record, f"{shown(path)}, line {number}")
            if not matches(record):
                raise RefusedFileError(f"{fields.where} lacks what rollout summaries of tinker-cookbook have")
            if record["schema_version"] != 1:
                raise RefusedFileError(f"{fields.where} has a schema other than 1, the only one that this reader knows")
            if not str(record.get("split", "train")).startswith("train"):
                num_other += 1
                continue
            rows.append(_row(fields))
    holes = []
    if any(row.prompt_key is None for row in rows):
        holes.append(
            Hole(
                "which prompt a group is",
                "prompts that come back count as new ones: no drift, and intervals that are too narrow where they "
                "repeat",
                f"return a tag '{TAG}<id>' from EnvGroupBuilder.logging_tags()",
            )
        )
    if any(row.is_truncated is None for row in rows):
        holes.append(
            Hole(
                "why a response ended",
                "responses that the length limit cut cannot be recognised",
                "a newer tinker-cookbook, whose summaries have stop_reason",
            )
        )
    holes.append(
        Hole(
            "advantages",
            "a group whose rewards differ is taken to train",
            "none; the cookbook centres rewards by group",
        )
    )
    remarks = [f"{num_other} rollouts of other splits are left out"] if num_other else []
    return Log(NAME, rows, holes, Order.LAUNCH, remarks=remarks)


def _row(fields: Fields) -> Row:
    tags = [tag for tag in fields.rows("tags") if isinstance(tag, str) and tag.startswith(TAG)]
    steps = [Fields(step, fields.where) for step in fields.rows("steps") if isinstance(step, dict)]
    iteration, group = fields.need("iteration"), fields.need("group_idx")
    stop = steps[-1].record.get("stop_reason") if steps else None
    return Row(
        source=fields.where,
        step=iteration,
        group_key=str(group),
        sample_index=fields.need("traj_idx"),
        reward=fields.number("total_reward"),
        prompt_key=tags[0] if tags else None,
        policy_version=fields.whole("sampling_client_step"),
        num_tokens=sum(step.count("ac_len") or 0 for step in steps),
        num_prompt_tokens=steps[0].count("ob_len") if steps else None,
        is_truncated=None if stop is None else stop == "length",
    )
