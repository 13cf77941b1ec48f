"""What a checkpoint holds, so that a damaged one is told from a good one before anything loads it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import xxhash

FILE = "manifest.json"
"""Name in a checkpoint's folder."""
_BLOCK_BYTES = 2**22


def write_manifest(folder: Path, **facts: Any) -> Path:
    """List every file below ``folder`` with its size and checksum, and put all of it on the disk.

    The checksum is xxh3_128: against disks and transfers, not against people. It reads at memory speed what has just
    been written.

    The folder is complete but for this file; ``facts`` stand beside the list, as primitives.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[str(path.relative_to(folder))] = {"bytes": path.stat().st_size, "xxh3_128": _checksum(path)}
            _flush(path)
    manifest = folder / FILE
    manifest.write_text(json.dumps({**facts, "files": files}, indent=2) + "\n", encoding="utf-8")
    _flush(manifest)
    for path in sorted(path for path in (folder, *folder.rglob("*")) if path.is_dir()):
        _flush(path)
    return manifest


def damage(folder: Path, *, below: str = "") -> str:
    """Say what is wrong with a checkpoint; an empty text where every file is as it was written.

    One without a manifest is damaged. Only files in the folder ``below`` are read, where one is named.
    """
    try:
        files = json.loads((folder / FILE).read_text(encoding="utf-8"))["files"]
        read = {name: expected for name, expected in files.items() if Path(name).is_relative_to(below)}
        if not read:
            return f"{FILE} lists no file{f' of {below}' if below else ''}"
        for name, expected in read.items():
            if wrong := _wrong_with(folder / name, expected):
                return f"{name} {wrong}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{FILE} or a file cannot be read ({type(error).__name__}: {error})"
    return ""


def _wrong_with(path: Path, expected: dict[str, Any]) -> str:
    if not path.is_file():
        return "is missing"
    if (size := path.stat().st_size) != expected["bytes"]:
        return f"has {size} bytes instead of {expected['bytes']}"
    return "" if _checksum(path) == expected["xxh3_128"] else f"has {size} bytes, but not those that were written"


def _checksum(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    """Put a file, or a folder's list of names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
