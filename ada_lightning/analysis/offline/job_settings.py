"""What the responses in a folder depend on, so that a folder never mixes two jobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ada_lightning.core.records import Prompt
from ada_lightning.run.files import write_text
from ada_lightning.run.flat import flat

_BLOCK_BYTES = 1 << 16
_BLOCKS_PER_FILE = 64
_SHOWN_CHARS = 60


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
