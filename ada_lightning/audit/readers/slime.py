"""slime: ``--save-debug-rollout-data`` and ``--dump-details`` write ``<rollout id>.pt`` (read in slime 624b824).

A ``.pt`` file is a pickle in a zip archive. It is read by torch's restricted unpickler (``weights_only``), which builds
tensors and plain values and calls nothing else; a file that needs more is refused.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ada_lightning.audit.records import Cause, Hole, Log, Options, Order, Row
from ada_lightning.audit.untrusted import GIB, Fields, RefusedFileError, checked, key_of, printable, shown, text_of

NAME = "slime"
_VERSION = re.compile(r"\d{1,15}")
HOLES = (
    Hole(
        "groups that a filter took out before the dump",
        "tokens of groups that --dynamic-sampling-filter-path dropped are missing, so the share without gradient "
        "is too low",
        "leave --dynamic-sampling-filter-path out while recording",
    ),
    Hole("advantages", "a group whose rewards differ is taken to train", "none in this dump"),
)


def files(folder: Path) -> list[Path]:
    """Return the dumps of training rollouts."""
    found = [*folder.glob("*.pt"), *folder.glob("rollout_data/*.pt")]
    return sorted((path for path in found if "eval" not in path.name), key=lambda path: (len(path.name), path.name))


def read(paths: Sequence[Path], options: Options) -> Log:
    """Read dumps of rollouts; a prompt is known by its text and its label.

    Raises:
        RefusedFileError: a file is no such dump, or holds more than tensors and plain values.
    """
    rows: list[Row] = []
    parts: set[str] = set()
    for path in paths:
        content = _load(path, options)
        if not isinstance(content, dict) or not isinstance(content.get("samples"), list):
            raise RefusedFileError(f"{shown(path)} has no list of samples, as a dump of slime has")
        step = Fields(content, shown(path)).need("rollout_id")
        for number, sample in enumerate(content["samples"]):
            if not isinstance(sample, dict):
                raise RefusedFileError(f"{shown(path)}, sample {number} is no record")
            parts |= set(reward) if isinstance(reward := sample.get("reward"), dict) else set()
            rows.append(_row(Fields(sample, f"{shown(path)}, sample {number}"), step, options))
    if unknown := [name for name in options.rewards if name not in parts]:
        listed = ", ".join(sorted(printable(name) for name in parts)) or "none: each reward is a number"
        raise RefusedFileError(f"--reward {printable(unknown[0])} is not in any sample; parts of rewards: {listed}")
    return Log(NAME, rows, list(HOLES), Order.LAUNCH)


def _load(path: Path, options: Options) -> Any:
    import torch

    with checked(path, options.limits).open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise RefusedFileError(f"{shown(path)} is not an archive of torch.save; a bare pickle is not read")
        try:
            entries = zipfile.ZipFile(file).infolist()
        except zipfile.BadZipFile:
            raise RefusedFileError(f"{shown(path)} is a damaged archive") from None
    if sum(entry.file_size for entry in entries) > options.limits.max_bytes or any(
        entry.compress_type != zipfile.ZIP_STORED for entry in entries
    ):
        raise RefusedFileError(
            f"{shown(path)} unpacks to more than {options.limits.max_bytes / GIB:.3g} GiB or is packed, as "
            "torch.save never packs; allow more by --max-gib"
        )
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError, KeyError, RecursionError) as error:
        raise RefusedFileError(
            f"{shown(path)} holds more than tensors and plain values ({type(error).__name__}), and reading it could "
            "run code: it is not read. Save samples whose metadata is plain (numbers, texts, lists), or convert "
            "the file where you trust it"
        ) from None


def _row(fields: Fields, step: int, options: Options) -> Row:
    record = fields.record
    group, status = fields.whole("group_index"), str(record.get("status"))
    if group is None:
        raise RefusedFileError(f"{fields.where} has no group_index")
    length, mask, tokens = (
        fields.count("response_length"),
        _values(record.get("loss_mask")),
        _values(record.get("tokens")),
    )
    generated = sum(1 for value in mask if value) if mask else length
    untrained = Cause.ABORTED if status in ("aborted", "failed", "pending") else None
    if untrained is None and record.get("remove_sample"):
        untrained = Cause.FILTERED
    versions = [text for text in _values(record.get("weight_versions")) if _VERSION.fullmatch(str(text))]
    return Row(
        source=fields.where,
        step=step,
        group_key=str(group),
        sample_index=fields.whole("index") or 0,
        reward=_reward(fields, options),
        prompt_key=key_of(record.get("prompt"), record.get("label")),
        policy_version=int(versions[-1]) if versions else None,
        num_tokens=generated,
        num_characters=len(text_of(record.get("response"))),
        num_prompt_tokens=len(tokens) - length if length is not None and len(tokens) >= length else None,
        is_truncated=status == "truncated",
        untrained=untrained,
    )


def _values(found: Any) -> list[Any]:
    """A list, or a tensor of one dimension as one."""
    if hasattr(found, "tolist"):
        found = found.tolist()
    return found if isinstance(found, list) else []


def _reward(fields: Fields, options: Options) -> float | None:
    reward = fields.record.get("reward")
    if not isinstance(reward, dict):
        return fields.number("reward")
    parts = Fields(reward, fields.where)
    if not options.rewards:
        names = ", ".join(printable(name) for name in list(reward)[:8])
        raise RefusedFileError(f"{fields.where}: the reward has parts ({names}); say which count by --reward NAME")
    known = {name: parts.number(name) for name in options.rewards}
    values = [weight * value for (name, weight) in options.rewards.items() if (value := known[name]) is not None]
    return sum(values) if len(values) == len(known) else None
