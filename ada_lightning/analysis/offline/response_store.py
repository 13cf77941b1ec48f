"""Drawn and graded responses on the disk, in files that only ever grow in number, and what they were drawn with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ada_lightning.core.records import Prompt
from ada_lightning.rollout.fixed_weights import DrawnPrompt
from ada_lightning.run.files import replacing, write_text
from ada_lightning.run.flat import flat
from ada_lightning.run.run_dir import make_private
from ada_lightning.run.run_lock import RunLock

SCHEMA = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("position", pa.int64()),
        ("task", pa.string()),
        ("sample_index", pa.int64()),
        ("reward", pa.float64()),
        ("failure", pa.string()),
        ("answer", pa.string()),
        ("components", pa.string()),
        ("is_truncated", pa.bool_()),
        ("num_tokens", pa.int64()),
        ("text", pa.large_string()),
        ("prompt", pa.large_string()),
        ("turns", pa.large_string()),
    ]
)
"""One row per response. ``position``: index of the prompt in its list. ``reward``: null where the grader failed, and
``failure`` then says why (else it is empty). ``answer``: null where the reward tells none. ``components``: JSON object.
``num_tokens``: of the response. ``prompt``: the turns as ``role: content`` lines. ``turns``: of an episode with an
environment, a JSON list of objects with the fields of :class:`~ada_lightning.core.episode.Turn`; null for a single
response, and in files from before there were episodes."""
_BLOCK_BYTES = 1 << 16
_BLOCKS_PER_FILE = 64
_SHOWN_CHARS = 60


class ResponseStore:
    """The responses of one job, in ``responses/part-NNNNN.parquet`` of a folder.

    Each file holds whole prompts and gets its name when it is complete, so that a process killed at any moment leaves
    nothing that would have to be repaired; leftovers under temporary names are not read.

    Args:
        folder: of the job; made by :meth:`claim`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._lock = RunLock(self.folder)

    @property
    def parts(self) -> list[Path]:
        """The files, in the order of writing."""
        return sorted((self.folder / "responses").glob("part-*.parquet"))

    def claim(self, settings: JobSettings) -> None:
        """Make the folder, or take up what is there; until :meth:`release` no other process may.

        Raises:
            ValueError: the folder belongs to a job with other settings, or another process works on it now.
        """
        make_private(self.folder)
        (self.folder / "responses").mkdir(exist_ok=True)
        self._lock.acquire()
        try:
            settings.check_same(self.folder / "job.json")
        except ValueError:
            self._lock.release()
            raise

    def release(self) -> None:
        """Let another process claim the folder. Safe to call twice."""
        self._lock.release()

    def finished(self) -> set[tuple[int, str]]:
        """(position, prompt id) of the prompts that are stored; a stored prompt is complete.

        Raises:
            ValueError: a file cannot be read.
        """
        table = self.table(["position", "prompt_id"])
        return set(zip(table["position"].to_pylist(), table["prompt_id"].to_pylist(), strict=True))

    def append(self, drawn: Sequence[DrawnPrompt]) -> Path:
        """Write prompts with all of their responses to the next file.

        Raises:
            RuntimeError: the store is not claimed.
            ValueError: there is nothing to write.
        """
        if not self._lock.is_held:
            raise RuntimeError(f"{self.folder} is not claimed; call claim() first")
        if not drawn:
            raise ValueError("append needs at least one prompt")
        last = int(self.parts[-1].stem.rpartition("-")[2]) if self.parts else -1
        target = self.folder / "responses" / f"part-{last + 1:05d}.parquet"
        rows = [row for prompt in drawn for row in _rows(prompt)]
        with replacing(target) as temporary:
            pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), temporary, compression="zstd")
        return target

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Every stored response, by position and sample index.

        Args:
            columns: to read, all if not given; long responses are most of the bytes.

        Raises:
            ValueError: a file cannot be read, or a prompt is in two of them.
        """
        order = ["position", "sample_index"]
        read = None if columns is None else list(dict.fromkeys([*columns, *order]))
        tables = [_read(part, read) for part in self.parts]
        empty = SCHEMA.empty_table().select(read or SCHEMA.names)
        table = pa.concat_tables([empty, *tables]).sort_by([(name, "ascending") for name in order])
        places = table.group_by(order).aggregate([])
        if places.num_rows < table.num_rows:
            raise ValueError(f"{self.folder / 'responses'} has the same prompt twice; were files copied into it?")
        return table.select(columns or SCHEMA.names)


def prompt_text(messages: Sequence[Any]) -> str:
    """Write chat turns for a person to read.

    Example:
        >>> prompt_text([{"role": "user", "content": "1 + 1 ="}])
        'user: 1 + 1 ='
    """
    return "\n".join(f"{message['role']}: {message['content']}" for message in messages)


def _rows(drawn: DrawnPrompt) -> Iterator[dict[str, Any]]:
    text = prompt_text(drawn.prompt.messages)
    for sample_index, draw in enumerate(drawn.draws):
        yield {
            "prompt_id": drawn.prompt.prompt_id,
            "position": drawn.position,
            "task": drawn.prompt.task,
            "sample_index": sample_index,
            "reward": draw.grade.reward,
            "failure": draw.grade.failure,
            "answer": draw.grade.answer,
            "components": json.dumps(dict(draw.grade.components)),
            "is_truncated": draw.is_truncated,
            "num_tokens": draw.num_tokens,
            "text": draw.text,
            "prompt": text,
            "turns": json.dumps([asdict(turn) for turn in draw.turns]) if draw.turns else None,
        }


def _read(part: Path, columns: list[str] | None) -> pa.Table:
    names = columns or SCHEMA.names
    try:
        return pq.read_table(part, columns=names, partitioning=None).select(names)
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise ValueError(
            f"{part} is damaged ({type(error).__name__}: {error}); delete it, and its prompts are drawn again"
        ) from error


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Nested JSON-like settings of a sampling job; two jobs with equal ones draw the same responses.

    What a response counts as afterwards (thresholds, excluded ones) does not belong here: it can change without
    drawing anew.
    """

    values: Mapping[str, Any]

    def check_same(self, file: Path) -> None:
        """Compare with what an earlier start wrote; write it where this is the first.

        Raises:
            ValueError: the folder belongs to a job with other settings, or its file cannot be read.
        """
        if not file.exists():
            write_text(file, json.dumps(self.values, indent=2) + "\n")
            return
        try:
            earlier = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{file} cannot be read ({error}); choose a new folder: run_name=<new name>") from error
        then, now = flat(earlier), flat(json.loads(json.dumps(self.values)))
        changed = [key for key in dict.fromkeys([*then, *now]) if then.get(key) != now.get(key)]
        if changed:
            lines = [f"  {key}: {_show(then.get(key))} there, {_show(now.get(key))} now" for key in changed]
            raise ValueError(
                f"the folder {file.parent} holds responses drawn with other settings:\n" + "\n".join(lines) + "\n"
                "  to continue it, give the settings it was started with; to draw with the new ones, choose a new "
                "folder: run_name=<new name>"
            )


def prompts_digest(prompts: Sequence[Prompt]) -> str:
    """Digest of a list of encoded prompts: their ids, their tokens, their order. 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(f"{prompt.prompt_id} {','.join(map(str, prompt.prompt_ids))}\n".encode())
    return digest.hexdigest()[:16]


def weights_digest(folder: Path) -> str:
    """Digest of a checkpoint's weights and description, 16 hexadecimal digits: a path alone may come to hold others.

    Of large files 64 blocks of 64 KiB, evenly spaced, and the size: seconds instead of minutes, and the weights of two
    steps of one run still differ.
    """
    digest = hashlib.sha256()
    for file in sorted([*folder.glob("*.safetensors"), folder / "config.json", folder / "generation_config.json"]):
        if not file.exists():
            continue
        size = file.stat().st_size
        digest.update(f"{file.name} {size}\n".encode())
        stride = max(_BLOCK_BYTES, size // _BLOCKS_PER_FILE)
        with file.open("rb") as stream:
            for start in range(0, size, stride):
                stream.seek(start)
                digest.update(stream.read(_BLOCK_BYTES))
    return digest.hexdigest()[:16]


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
