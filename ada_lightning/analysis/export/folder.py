"""Writes exported weights with their card, whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.analysis.export.card import PICTURES, model_card
from ada_lightning.analysis.export.source import ExportSource


def check_output(output: Path) -> None:
    """Refuse a folder that is there.

    Raises:
        ValueError: it is.
    """
    if output.exists() or output.is_symlink():
        raise ValueError(f"{output} exists already; choose another: --output <folder>")


def write_folder(source: ExportSource, output: Path, *, evaluations: Sequence[Path] = ()) -> list[Path]:
    """Copy the weights, the tokenizer and the run's pictures, and write ``README.md``, the card.

    Args:
        source: weights and run.
        output: a folder that does not exist; made last, by renaming.
        evaluations: folders of finished evaluations of these weights, for the card.

    Returns:
        Its files.

    Raises:
        ValueError: the folder exists, or an evaluation is not of these weights; nothing is written.
        OSError: the disk is full, say; nothing is left of what was written.
    """
    check_output(output)
    pictures = [name for name in PICTURES if _is_file(source.run.folder / name)]
    card = model_card(source, evaluations=evaluations, pictures=pictures)
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.with_name(f".{output.name}.tmp{os.getpid()}")
    try:
        shutil.copytree(source.weights, unfinished, copy_function=shutil.copyfile)  # with rights of a new file
        for name in pictures:
            shutil.copyfile(source.run.folder / name, unfinished / name)
        (unfinished / "README.md").write_text(card, encoding="utf-8")
        unfinished.rename(output)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return sorted(path for path in output.rglob("*") if path.is_file())


def _is_file(path: Path) -> bool:
    """Whether it is a file of the folder itself, which may be anybody's, and not a link out of it."""
    return path.is_file() and not path.is_symlink()
