"""Rows of data sets of the Hugging Face hub and of folders in their formats."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ada_lightning.data.table_files import ROWS_AT_ONCE, numbered_rows
from ada_lightning.data.text_files import Row


def read_dataset(
    path: str, *, name: str | None, revision: str | None, split: str, columns: Collection[str] | None = None
) -> Iterator[Row]:
    """Yield the rows of one split, counted from 0, as plain values: images and audio are not decoded.

    Arguments are those of :class:`~ada_lightning.data.reading.RowReader`. A folder is one saved by ``save_to_disk``, of
    whose splits there are no slices, or one that holds the files of a data set as a repository of the hub does.

    Raises:
        ValueError: there is no such data set, configuration or split, it cannot be read, or the hub cannot be reached.
    """
    import datasets  # costs seconds: only those who need it wait for it

    datasets.disable_progress_bars()
    what = f"{path} (name={name}, split={split})" if name else f"{path} (split={split})"
    try:
        if (dataset := _saved(Path(path), split)) is None:  # one without rows is false
            dataset = datasets.load_dataset(path, name, revision=revision, split=split)
        if columns is not None:
            dataset = dataset.select_columns([column for column in dataset.column_names if column in columns])
        tables = dataset.with_format("arrow").iter(ROWS_AT_ONCE)
    except Exception as error:  # a hub, a file system and a dozen readers raise all kinds
        raise ValueError(_explained(what, path, error)) from error
    yield from numbered_rows(tables, what)


def _saved(folder: Path, split: str) -> Any:
    """Return what ``save_to_disk`` left in the folder; None where it is no such folder."""
    import datasets

    if (folder / "state.json").exists():
        if split != "train":
            raise ValueError(f"Unknown split {split!r}: the folder holds one data set without splits; leave it out")
        return datasets.load_from_disk(folder)
    if (folder / "dataset_dict.json").exists():
        splits = datasets.load_from_disk(folder)
        if split not in splits:
            raise ValueError(f"Unknown split {split!r}. Should be one of {list(splits)}.")
        return splits[split]
    return None


def _explained(what: str, path: str, error: Exception) -> str:
    cause = error.__cause__ if type(error).__name__ == "DatasetGenerationError" and error.__cause__ else error
    message = f"cannot read the data set {what}: {type(cause).__name__}: {cause}"
    is_local = Path(path).exists()
    if not is_local and isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return (
            f"{message}. Without the hub: download the data set where there is a network (hf download {path} "
            "--repo-type dataset --local-dir <folder>) and set data.source.path to that folder or to a file in it. If "
            f"{path} is meant to be a folder: there is none at {Path(path).absolute()}"
        )
    if type(error).__name__ == "DatasetNotFoundError":
        return f"{message}. If it is meant to be a folder: there is none at {Path(path).absolute()}"
    if "split" in str(error):
        return f"{message}; set data.source.split (or heldout_split)"
    if "BuilderConfig" in str(error) or "Config name is missing" in str(error):
        return f"{message}; set data.source.name to one of its configurations"
    if is_local:
        return f"{message}. A glob (data.source.path={path}/*.jsonl) reads files one by one and names the line"
    return message
