"""This project: a run's folder, whose ``responses/train/step_*.parquet`` has the responses of its prompts."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ada_lightning.audit.records import Cause, Hole, Log, Options, Order, Row, Sampling
from ada_lightning.audit.untrusted import Fields, RefusedFileError, checked, parquet_rows, printable, shown

NAME = "ada_lightning"
NEEDED = ("step", "slot", "prompt_id", "sample_index", "round", "reward", "is_positive", "is_kept", "num_tokens")
RECORDING = "callbacks.response_log.every_n_steps=1 callbacks.response_log.max_prompts=inf"
EXCLUDED = Hole(
    "responses that are no evidence",
    "tokens of responses whose grading failed, or that rollout.truncated=exclude took out, are missing",
    "rollout.truncated=grade; prompts.csv has how many failed",
)

CUT = Hole(
    "responses that sampler=cut could have cut",
    "tokens of responses that it cut, or would have cut had they been longer, are missing; pass rates and lengths are "
    "right without them",
    "sampler=uniform",
)


def files(folder: Path) -> list[Path]:
    """Return the tables of training responses of a run."""
    return sorted(folder.glob("responses/train/step_*.parquet"))


def read(paths: Sequence[Path], options: Options) -> Log:
    """Read the tables of a run, how it sampled (``config.yaml``), and how much was not kept (``prompts.csv``).

    Raises:
        RefusedFileError: a file cannot be read as this format.
    """
    folder = paths[0].parent.parent.parent
    settings = _settings(folder / "config.yaml", options)
    rollout = settings.get("rollout")
    masks = isinstance(rollout, dict) and rollout.get("truncated") == "mask"
    rows: list[Row] = []
    hinted: list[Row] = []
    for path in paths:
        columns, content = parquet_rows(path, options.limits)
        if missing := [name for name in NEEDED if name not in columns]:
            raise RefusedFileError(f"{shown(path)} lacks the columns {', '.join(missing)} of a response log")
        read = [Fields(record, f"{shown(path)}, row {index}") for index, record in enumerate(content)]
        hinted += [_row(fields, masks) for fields in read if fields.whole("hint")]
        rows += [_row(fields, masks) for fields in read if not fields.whole("hint")]
        if len(rows) + len(hinted) > options.limits.max_rows:
            raise RefusedFileError(f"more than {options.limits.max_rows} responses; give fewer steps")
    sampling, cuts = _sampling(settings)
    holes = [EXCLUDED, *[CUT] * cuts]
    if hinted:
        holes.append(_of_hints(hinted))
    groups = {(row.step, row.group_key) for row in rows}
    num_logged = _num_groups(folder / "prompts.csv", options)
    if num_logged is not None and num_logged > len(groups):
        holes.append(
            Hole(
                f"{num_logged - len(groups)} of {num_logged} groups",
                "figures are of the prompts and steps whose responses were kept; these are a random sample of the "
                "run's",
                RECORDING,
            )
        )
    if num_dropped := _num_dropped(folder / "metrics.csv", options):
        holes.append(
            Hole(
                f"{num_dropped:,} tokens that were drawn ahead and dropped",
                "the run generated them, and they are in no figure here; all of them gave no gradient",
                "rollout/schedule=barrier",
            )
        )
    given = rollout.get("positive_threshold") if isinstance(rollout, dict) else None
    threshold = float(given) if isinstance(given, int | float) and not isinstance(given, bool) else None
    return Log(NAME, rows, holes, Order.LAUNCH, sampling=sampling, threshold=threshold)


def _row(fields: Fields, masks: bool) -> Row:
    record = fields.record
    advantage, truncated = fields.number("advantage"), record.get("finish_reason") == "length"
    kept = bool(record["is_kept"])
    return Row(
        source=fields.where,
        step=fields.need("step"),
        group_key=str(fields.need("slot")),
        sample_index=fields.need("sample_index"),
        reward=fields.number("reward"),
        prompt_key=str(record["prompt_id"]),
        policy_version=fields.whole("policy_version"),
        is_positive=bool(record["is_positive"]),
        num_tokens=fields.count("num_tokens"),
        num_characters=len(str(record.get("text") or "")),
        is_truncated=truncated,
        advantage=advantage,
        untrained=None if kept else Cause.MASKED if truncated and masks else Cause.NOT_KEPT,
        block=fields.whole("round") or 0,
        components=_components(record.get("components"), fields),
    )


def _of_hints(rows: Sequence[Row]) -> Hole:
    """What hinted groups are: a rule of their own, and no visits of their prompts."""
    rewards: dict[tuple[int, str], set[float | None]] = {}
    for row in rows:
        rewards.setdefault((row.step, row.group_key), set()).add(row.reward)
    num_signal = sum(len(each) > 1 for each in rewards.values())
    return Hole(
        f"groups under a hint: {len(rewards)}",
        f"a rule of their own: {len(rows)} responses, {sum(row.num_tokens or 0 for row in rows)} tokens, {num_signal} "
        "groups with a signal. They are no visits of their prompts and in no figure here",
        "hints=none; the metrics hints/... have more",
    )


def _components(text: Any, fields: Fields) -> dict[str, float]:
    if not isinstance(text, str):
        return {}
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        raise RefusedFileError(f"{fields.where}: components is no JSON") from None
    if not isinstance(parts, dict):
        raise RefusedFileError(f"{fields.where}: components is no object")
    known = Fields(parts, fields.where)
    return {printable(name): value for name in parts if (value := known.number(name)) is not None}


def _num_groups(path: Path, options: Options) -> int | None:
    """Groups of the prompt log that drew anything; None where there is no such log."""
    if not path.is_file():
        return None
    with checked(path, options.limits).open(encoding="utf-8", errors="replace", newline="") as file:
        try:
            return sum(
                1
                for row in csv.DictReader(file)
                if (row.get("num_sampled") or "0") != "0" and (row.get("hint") or "0") == "0"
            )
        except csv.Error:
            raise RefusedFileError(f"{shown(path)} is no prompt log") from None


def _num_dropped(path: Path, options: Options) -> int:
    """Tokens that the run drew ahead and did not use, by its metrics."""
    if not path.is_file():
        return 0
    with checked(path, options.limits).open(encoding="utf-8", errors="replace", newline="") as file:
        try:
            cells = [row.get("rollout/tokens_wasted") for row in csv.DictReader(file)]
            return round(sum(float(cell) for cell in cells if cell))
        except (csv.Error, ValueError, OverflowError):
            raise RefusedFileError(f"{shown(path)} is no table of metrics") from None


def _settings(path: Path, options: Options) -> dict[str, Any]:
    """The settings of the run; empty where they are not there."""
    if not path.is_file():
        return {}
    if checked(path, options.limits).stat().st_size > 2**20:
        raise RefusedFileError(f"{shown(path)} is larger than a run's settings")
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8", errors="replace"))
    except (yaml.YAMLError, RecursionError):
        raise RefusedFileError(f"{shown(path)} is no YAML of plain values") from None
    return settings if isinstance(settings, dict) else {}


def _sampling(settings: dict[str, Any]) -> tuple[Sampling | None, bool]:
    """Whether the run drew the same number for every prompt, by the class of its sampler, and whether it cuts any."""
    sampler = settings.get("sampler")
    if not isinstance(sampler, dict) or not (target := str(sampler.get("_target_", "")).rpartition(".")[2]):
        return None, False
    is_uniform = target in ("UniformSampler", "CutSampler")
    return Sampling.UNIFORM if is_uniform else Sampling.ADAPTIVE, target == "CutSampler"
