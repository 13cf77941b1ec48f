"""verl: ``trainer.rollout_data_dir`` has ``<step>.jsonl``, one row an output (read in verl 0.9.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ada_lightning.audit.records import Hole, Log, Options, Order, Row
from ada_lightning.audit.untrusted import Fields, RefusedFileError, json_lines, key_of, printable, shown, text_of

NAME = "verl"
_NAME_OF_A_STEP = re.compile(r"\d+\.jsonl")
_USED = {"input", "output", "gts", "score", "step", "uid"}
HOLES = (
    Hole(
        "why a response ended",
        "responses that the length limit cut cannot be told from others",
        "return {'score': ..., 'is_truncated': ...} from the reward function: extra keys are dumped where verl's "
        "trainer "
        "writes them (not by the one of trainer.use_v1)",
    ),
    Hole(
        "groups that a filter took out before the dump",
        "tokens of groups that algorithm.filter_groups dropped are missing, so the share without gradient is too low",
        "algorithm.filter_groups.enable=False while recording",
    ),
    Hole("the policy's version", "responses that are older than their step count as of it", "trainer.v1 mode sync"),
)


def files(folder: Path) -> list[Path]:
    """Return the files of a dump."""
    found = [path for path in folder.glob("*.jsonl") if _NAME_OF_A_STEP.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.stem))


def matches(record: dict[str, Any]) -> bool:
    """Whether a line is of this format."""
    return {"input", "output", "score", "step"} <= record.keys()


def read(paths: Sequence[Path], options: Options) -> Log:
    """Read a dump.

    A prompt is known by its text and its reference; its rows by ``uid`` (``<group>_<response>_<output>``) where the
    dump has one, else by prompt and step. Rows that only fill the batch (``pad...``) are left out. The outputs of an
    episode are one response, with the score of the last.

    Raises:
        RefusedFileError: a file cannot be read as this format.
    """
    episodes: dict[tuple[int, str, int], list[Row]] = {}
    outputs: set[tuple[int, str]] = set()
    has_uid, num_pads = True, 0
    for path in paths:
        for number, record in json_lines(path, options.limits):
            fields = Fields(record, f"{shown(path)}, line {number}")
            if not matches(record):
                raise RefusedFileError(f"{fields.where} lacks input, output, score or step, which verl dumps")
            uid = record.get("uid")
            if isinstance(uid, str) and uid.startswith("pad"):
                num_pads += 1
                continue
            has_uid &= isinstance(uid, str)
            row = _row(fields, uid, len(episodes), options)
            if isinstance(uid, str):
                if (row.step, uid) in outputs:
                    raise RefusedFileError(f"{fields.where}: uid {printable(uid)} was there before in its step")
                outputs.add((row.step, uid))
            episodes.setdefault((row.step, row.group_key, row.sample_index), []).append(row)
    rows = [_joined(rows) for rows in episodes.values()]
    known = sorted({"score"}.union(*(row.components for row in rows)))
    if unknown := [name for name in options.rewards if printable(name) not in known]:
        raise RefusedFileError(f"--reward {printable(unknown[0])} is in no row; numbers that are: {', '.join(known)}")
    holes = list(HOLES)
    if options.tokenizer is None:
        holes.insert(0, Hole("token counts", "lengths are in characters", "--tokenizer <the model's tokenizer.json>"))
    else:
        holes.insert(
            0, Hole("token counts", "counted anew from the text, without special tokens: one or two too few", "")
        )
    if not has_uid:
        holes.append(
            Hole(
                "groups",
                "a prompt that is twice in a step counts as one group",
                "trainer.use_v1=True, whose dump has uid",
            )
        )
    remarks = [f"{num_pads} rows that only fill the batch are left out"] if num_pads else []
    order = Order.LAUNCH if has_uid else Order.UNKNOWN
    return Log(NAME, rows, holes, order, remarks=remarks)


def _row(fields: Fields, uid: Any, number: int, options: Options) -> Row:
    record = fields.record
    prompt = key_of(record.get("input"), record.get("gts"))
    group, session = prompt, number
    if isinstance(uid, str):
        parts = uid.rsplit("_", 2)
        if len(parts) != 3 or not parts[1].isdecimal() or len(parts[1]) > 9:
            raise RefusedFileError(f"{fields.where}: uid is not <group>_<response>_<output>")
        group, session = parts[0], int(parts[1])
    text = text_of(record.get("output"))
    components = {
        printable(name): float(value)
        for name, value in record.items()
        if name not in _USED and isinstance(value, int | float) and abs(value) < 1e300
    }
    if options.rewards:
        parts_of = [fields.number(name) for name in options.rewards]
        known = [value for value in parts_of if value is not None]
        weights = options.rewards.values()
        reward = sum(w * v for w, v in zip(weights, known, strict=True)) if len(known) == len(parts_of) else None
    else:
        reward = fields.number("score")
    truncated = fields.number("is_truncated")
    return Row(
        source=fields.where,
        step=fields.need("step"),
        group_key=group,
        sample_index=session,
        reward=reward,
        prompt_key=prompt,
        num_tokens=options.num_tokens(text),
        num_characters=len(text),
        is_truncated=None if truncated is None else bool(truncated),
        components=components,
    )


def _joined(rows: Sequence[Row]) -> Row:
    """The outputs of one episode as one response."""
    if len(rows) == 1:
        return rows[0]
    from dataclasses import replace

    tokens = [row.num_tokens for row in rows]
    return replace(
        rows[-1],
        num_tokens=None if None in tokens else sum(filter(None, tokens)),
        num_characters=sum(row.num_characters or 0 for row in rows),
    )
