"""prime-rl and verifiers: ``rollouts/step_<n>/train/{all,effective}/traces.jsonl``, one episode a line.

Read in verifiers 0.4.0 (trace schema 1) and prime-rl 559b447. ``all`` has every episode that ended, ``effective`` those
that trained.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ada_lightning.audit.records import Cause, Hole, Log, Options, Order, Row
from ada_lightning.audit.untrusted import Fields, RefusedFileError, json_lines, key_of, shown

NAME = "prime-rl / verifiers"
_STEP = re.compile(r"step_(\d{1,15})")
_LIMITS = {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"}
"""Conditions that end a trace by a limit."""
UNFILTERED = Hole(
    "which episodes trained",
    "every group whose rewards differ is taken to train",
    "give the folder of the run, which has both rollouts/step_<n>/train/all and .../effective",
)


def files(folder: Path) -> list[Path]:
    """Return the traces of training steps; ``effective`` only where there is no ``all``."""
    steps = [*folder.glob("rollouts/step_*/train"), *folder.glob("step_*/train"), *folder.glob("train")]
    found = []
    for step in steps:
        candidates = (step / subset / "traces.jsonl" for subset in ("all", "effective"))
        found += [path for path in candidates if path.is_file()][:1]
    return sorted([*found, *folder.glob("traces.jsonl")], key=lambda path: (_step_of(path) or 0, str(path)))


def matches(record: dict[str, Any]) -> bool:
    """Whether a line is of this format."""
    return "traces" in record or {"nodes", "rewards", "task"} <= record.keys()


def read(paths: Sequence[Path], options: Options) -> Log:
    """Read traces. Agents whose tokens do not train are left out; an episode of several trained agents has a row each.

    Raises:
        RefusedFileError: a file cannot be read as this format.
    """
    rows: list[Row] = []
    knows_trained = True
    for path in paths:
        trained = _trained(path, options)
        knows_trained &= trained is not None
        for number, record in json_lines(path, options.limits):
            if not matches(record):
                raise RefusedFileError(f"{shown(path)}, line {number} is not an episode or trace of verifiers")
            rows += _rows(Fields(record, f"{shown(path)}, line {number}"), _step_of(path), trained, len(rows))
    holes = [] if knows_trained else [UNFILTERED]
    return Log(NAME, rows, holes, Order.FINISH)


def _step_of(path: Path) -> int | None:
    found = [match for part in path.parts if (match := _STEP.fullmatch(part))]
    return int(found[-1].group(1)) if found else None


def _trained(path: Path, options: Options) -> set[str] | None:
    """Ids of the episodes that trained; None where the log does not have them."""
    effective = path.parent.parent / "effective" / "traces.jsonl"
    if path.parent.name != "all" or not effective.is_file():
        return None
    return {str(record.get("id")) for _, record in json_lines(effective, options.limits)}


def _rows(episode: Fields, step: int | None, trained: set[str] | None, number: int) -> Iterator[Row]:
    traces = [trace for trace in episode.rows("traces") if isinstance(trace, dict)]
    if "nodes" in episode.record:
        traces = [episode.record]
    run = Fields(episode.table("run"), episode.where)
    work = Fields(run.table("work"), episode.where)
    if work.record.get("type") == "eval":
        return
    started = work.whole("step") if "step" in work.record else step
    policy = Fields(work.table("policy"), episode.where).whole("start")
    group = episode.table("group").get("id")
    filtered = trained is not None and str(episode.record.get("id")) not in trained
    for trace in traces:
        fields = Fields(trace, episode.where)
        if fields.table("agent").get("trainable", True) is False:
            continue
        task = fields.table("task") or episode.table("task")
        prompt = str(task.get("key") or task.get("hash") or key_of(task.get("data")))
        agent = str(fields.table("agent").get("name", "agent"))
        yield _row(
            fields,
            step=step if step is not None else started or 0,
            group_key=f"{group if group is not None else prompt}/{agent}",
            sample_index=number,
            prompt_key=prompt,
            policy_version=policy,
            untrained=Cause.FILTERED if filtered else None,
        )


def _row(fields: Fields, *, untrained: Cause | None, **known: Any) -> Row:
    nodes = [Fields(node, fields.where) for node in fields.rows("nodes") if isinstance(node, dict)]
    calls = [Fields(call, fields.where) for call in fields.rows("calls") if isinstance(call, dict)]
    masks = [node.rows("mask") for node in nodes]
    num_tokens: int | None = sum(sum(1 for value in mask if value) for mask in masks)
    if not any(masks):
        usages = [Fields(call.table("usage"), fields.where).count("completion_tokens") for call in calls]
        num_tokens = None if not usages or None in usages else sum(filter(None, usages))
    ended = [call for call in calls if call.record.get("error") is None]
    stop = fields.record.get("stop_condition")
    failed = bool(fields.rows("errors")) or fields.record.get("ok") is False
    return Row(
        source=fields.where,
        reward=None if failed else _reward(fields),
        num_tokens=num_tokens,
        is_truncated=stop in _LIMITS or bool(ended and ended[-1].record.get("finish_reason") == "length"),
        advantage=_advantage(nodes),
        untrained=Cause.ABORTED if failed else untrained,
        **known,
    )


def _reward(fields: Fields) -> float | None:
    """The weighted sum of the named rewards; None where none was given."""
    values = []
    for reward in fields.table("rewards").values():
        if isinstance(reward, dict):
            parts = Fields(reward, fields.where)
            score, weight = parts.number("score"), parts.number("weight")
            if score is not None:
                values.append(score * (1.0 if weight is None else weight))
    return sum(values) if values else None


def _advantage(nodes: Sequence[Fields]) -> float | None:
    """The largest credit of any token, with its sign; None where no node was assigned any."""
    found = [
        value
        for node in nodes
        for value in node.rows("advantages")
        if isinstance(value, int | float) and abs(value) < 1e300
    ]
    return max(found, key=abs) if found else None
