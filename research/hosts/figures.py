"""The JSON files of this room: ``docs/reliability/hosts_<name>.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from research.benchmarks.report import RELIABILITY, header, lines_of


def save(name: str, **content: Any) -> None:
    """Write what ``research.hosts.<name>`` found, with its command, and print it."""
    text = lines_of(header(f"research.hosts.{name}") | content)
    print(text)
    RELIABILITY.mkdir(parents=True, exist_ok=True)
    (RELIABILITY / f"hosts_{name}.json").write_text(text)


def load(name: str) -> dict[str, Any]:
    """Read it again."""
    content: dict[str, Any] = json.loads((RELIABILITY / f"hosts_{name}.json").read_text())
    return content


def quoted(said: Mapping[str, str]) -> str:
    """Return what was printed, by who or what it is about, as a block of text for a page."""
    return "```text\n" + "".join(f"{name}:\n    {text}\n" for name, text in said.items()) + "```\n"
