"""Finds the reader for a path."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ada_lightning.audit.readers import run_folder, slime, tinker, trl, verifiers, verl
from ada_lightning.audit.records import Log, Options
from ada_lightning.audit.untrusted import RefusedFileError, json_lines, parquet_rows, shown

READERS: Mapping[str, Any] = {
    "ada": run_folder,
    "trl": trl,
    "verl": verl,
    "tinker": tinker,
    "slime": slime,
    "verifiers": verifiers,
}
"""Modules with ``NAME``, ``files(folder)`` and ``read(paths, options)``, by the names that ``--format`` takes."""
_WITH_PARTS = (trl, verl, slime)
"""Those whose rewards may be made of parts that a person names."""
_PACKED = {".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz"}
_PICKLES = {".pkl", ".pickle", ".joblib", ".ckpt", ".bin", ".pth", ".npy", ".npz"}


def read_logs(paths: Sequence[Path], options: Options, format: str | None = None) -> list[tuple[str, Log]]:
    """Read logs: folders that a trainer wrote, one log each; files of one folder and format are one log.

    Args:
        paths: files or folders.
        options: what a person says of them.
        format: name of the reader; None finds it by the names and the first record of the files.

    Returns:
        (name for people, log), in the order of the paths.

    Raises:
        RefusedFileError: a path has nothing that a reader knows, or what it has is refused.
    """
    found: dict[tuple[str, Path], tuple[Any, list[Path]]] = {}
    known: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise RefusedFileError(f"{shown(path)} does not exist")
        if (real := path.resolve()) in known:
            raise RefusedFileError(f"{shown(path)} is given twice; its responses would count twice")
        known.add(real)
        if path.is_dir():
            found["folder", real] = _of_folder(path, format)
        else:
            reader = READERS[format] if format else _by_content(path, options)
            found.setdefault((reader.NAME, real.parent), (reader, []))[1].append(path)
    logs = []
    for (_, place), (reader, files) in found.items():
        name = shown(files[0] if len(files) == 1 else place)
        if options.rewards and reader not in _WITH_PARTS:
            raise RefusedFileError(f"{name}: logs of {reader.NAME} say what the reward is; leave --reward out")
        if options.group_size and reader is not trl:
            raise RefusedFileError(f"{name}: logs of {reader.NAME} mark their groups; leave --group-size out")
        log = reader.read(files, options)
        if not log.rows:
            raise RefusedFileError(f"{name} has no response of training in it ({reader.NAME})")
        if len(log.rows) > options.limits.max_rows:
            raise RefusedFileError(f"{name} has more than {options.limits.max_rows} responses; give fewer steps")
        logs.append((name, log))
    return logs


def _of_folder(path: Path, format: str | None) -> tuple[Any, list[Path]]:
    for reader in [READERS[format]] if format else READERS.values():
        if paths := reader.files(path):
            return reader, paths
    raise RefusedFileError(
        f"{shown(path)} has no files that a reader knows: completions/completions_*.parquet (TRL), <step>.jsonl "
        "(verl), train_rollout_summaries.jsonl (tinker-cookbook), rollout_data/*.pt (slime), "
        "rollouts/step_*/train/*/traces.jsonl (prime-rl), or responses/train/step_*.parquet (ada_lightning)"
    )


def _by_content(path: Path, options: Options) -> Any:
    if path.suffix in _PICKLES:
        raise RefusedFileError(
            f"{shown(path)} looks like a pickle, and reading one could run code. It is not read; record as "
            "docs/audit.md says"
        )
    if path.suffix in _PACKED:
        raise RefusedFileError(f"{shown(path)} is packed; unpack it first, and give the file that comes out")
    if path.suffix == ".pt":
        return slime
    if path.suffix == ".parquet":
        columns, _ = parquet_rows(path, options.limits)
        for reader in (run_folder, trl):
            if set(reader.NEEDED) <= set(columns):
                return reader
    if path.suffix in (".jsonl", ".json", ".ndjson"):
        first = next((record for _, record in json_lines(path, options.limits)), {})
        for reader in (tinker, verifiers, verl):
            if reader.matches(first):
                return reader
    raise RefusedFileError(
        f"{shown(path)} is in no format that a reader knows ({', '.join(READERS)}); see docs/audit.md"
    )


def tokenizer_of(path: Path, options: Options) -> Any:
    """Load a ``tokenizer.json``: data, not code.

    Raises:
        RefusedFileError: it is no such file.
    """
    from tokenizers import Tokenizer

    from ada_lightning.audit.untrusted import checked

    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.exists():
        raise RefusedFileError(
            f"{shown(file)} does not exist; --tokenizer takes a model's tokenizer.json or its folder"
        )
    try:
        text = checked(file, options.limits).read_text(encoding="utf-8")
        json.loads(text)
        return Tokenizer.from_str(text)
    except RefusedFileError:
        raise
    except Exception as error:  # tokenizers raises bare Exceptions
        raise RefusedFileError(f"{shown(file)} is no tokenizer.json ({type(error).__name__})") from None
