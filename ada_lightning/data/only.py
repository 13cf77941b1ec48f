"""Restricts the training prompts to some that were selected before, whatever source they come from."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.core.records import Prompt

_SELECTED = "selected.parquet"


class OnlyPrompts:
    """A list of prompt ids from a file, read and checked at construction.

    Args:
        path: folder that ``prepare.py`` wrote, or a parquet file with a column ``prompt_id``, such as a part of its
            ``prompts.parquet``.

    Raises:
        ValueError: there is no such file, it cannot be read, or it holds no prompt id.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.prompt_ids = frozenset(_read(self.path / _SELECTED if self.path.is_dir() else self.path))

    def check(self, prompts: Sequence[Prompt]) -> None:
        """Compare with the training prompts.

        Raises:
            ValueError: none of them is in the file.
        """
        if self.prompt_ids.isdisjoint(prompt.prompt_id for prompt in prompts):
            raise ValueError(
                f"data.only = {self.path} has {len(self.prompt_ids)} prompts and none of the {len(prompts)} training "
                "prompts is among them: it was made from other data; give it the data settings it was prepared with "
                "(its config.yaml has them), or leave it out: data.only=null"
            )

    def keep(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Return the prompts that are in the file, in their order; warns of ids that none of them has.

        Raises:
            ValueError: none of them is in the file.
        """
        self.check(prompts)
        kept = [prompt for prompt in prompts if prompt.prompt_id in self.prompt_ids]
        num_missing = len(self.prompt_ids) - len({prompt.prompt_id for prompt in kept})
        if num_missing:
            warnings.warn(
                f"{num_missing} of the {len(self.prompt_ids)} prompts of data.only = {self.path} are not among the "
                "training prompts",
                stacklevel=2,
            )
        return kept


def _read(file: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    way_out = "give a folder that prepare.py has finished, or a parquet file with a column prompt_id"
    if not file.is_file():
        raise ValueError(f"data.only: there is no file {file}; {way_out}")
    try:
        has_column = "prompt_id" in pq.read_schema(file).names
        table = pq.read_table(file, columns=["prompt_id"] if has_column else [], partitioning=None)
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"data.only: {file} cannot be read as parquet ({error}); {way_out}") from error
    if not has_column:
        raise ValueError(f"data.only: {file} has no column prompt_id; {way_out}")
    prompt_ids = [value for value in table["prompt_id"].to_pylist() if isinstance(value, str)]
    if not prompt_ids:
        raise ValueError(f"data.only: {file} holds no prompt; widen the band it was selected with")
    return prompt_ids
