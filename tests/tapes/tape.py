"""A tape: what was recorded of one case, as compressed JSON of plain numbers, texts, lists and dictionaries.

Floats are written with nine significant digits. Of a tensor its numbers are kept, of the state of a random generator a
checksum. ``steps`` is what a method does, and the same whatever came back first; ``launched`` says, by latency, how
many responses of every slot were asked for and how many of them were dropped.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.tapes import world
from tests.tapes.cases import Case
from tests.tapes.world import Latency

FOLDER = Path(__file__).parent / "recorded"
FORMAT = 1
Play = Callable[[Case, Latency], list[dict[str, Any]]]


class LatencyMattersError(AssertionError):
    """A method did something else because responses came back in another order."""


def record(case: Case, play: Play, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Play a case with every latency.

    Raises:
        LatencyMattersError: what it does depends on it.
    """
    steps: list[Any] = []
    launched = {}
    for latency in world.LATENCIES:
        played, launched[latency.name] = split(play(case, latency))
        steps = steps or played
        if text(played) != text(steps):
            raise LatencyMattersError(f"{case.name}: {latency.name} differs from {world.LATENCIES[0].name}")
    about = {"name": case.name, "overrides": list(case.overrides), "graded": case.graded, "choices": dict(choices)}
    return {"format": FORMAT, "case": about, "steps": steps, "launched": launched}


def split(played: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Part what a method does from what was launched for it; in canonical form."""
    return plain([{**step, "launched": None} for step in played]), plain([step["launched"] for step in played])


def text(value: Any) -> str:
    """Return equal texts for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def write(tape: Mapping[str, Any], folder: Path = FOLDER) -> Path:
    """Write a tape; equal tapes are equal files."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{tape['case']['name']}.json.gz"
    path.write_bytes(gzip.compress(text(tape).encode(), compresslevel=9, mtime=0))
    return path


def read(path: Path) -> dict[str, Any]:
    """Read a tape."""
    tape: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    assert tape["format"] == FORMAT
    return tape


def case_of(tape: Mapping[str, Any]) -> Case:
    """Return the case that a tape is of."""
    about = tape["case"]
    return Case(about["name"], tuple(about["overrides"]), graded=about["graded"])


def plain(value: Any) -> Any:
    """Turn a value into what JSON has, in canonical form.

    Raises:
        TypeError: it holds something else than numbers, texts, tensors, lists and dictionaries.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # tensors and arrays
        return _numbers(value)
    raise TypeError(f"{type(value).__name__} has no place on a tape")


def _numbers(tensor: Any) -> Any:
    if "uint8" in str(tensor.dtype):
        return {"checksum": world.checksum(str(tensor.tolist()))}
    return plain(tensor.tolist())
