"""Commands of this project's programs as its pages and scripts have them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"docs/experiments.md", "docs/notebooks/first_run.md"}
"""Pages that only a build of the site makes."""
PAGES = [
    *("README.md", "CONTRIBUTING.md", "docs/notebooks/first_run.ipynb"),
    *sorted({str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")} - GENERATED),
]
_FIGURE = re.compile(r"`([a-z_]+/[\w<>]+)`")
_STARTS = re.compile(
    r"^(?:\w+=\S+ )*"
    r"(?:(?:srun|torchrun|python3?|\.venv/bin/python) (?:.* )?(?P<file>\w+)\.py|ada (?P<name>\w+)) "
    r"(?P<rest>.*)"
)


def commands(page: str, program: str = "train") -> list[list[str]]:
    """Overrides of every command of a page that starts a program, in code blocks, inline code and shell scripts.

    ``...`` in a command stands for an experiment, which is put there.
    """
    found = []
    for words in arguments(page, program):
        kept = [word for word in words if word not in ("$@", "-m") and not word.startswith("--")]
        found.append(["+experiment=ada_seq_balance" if word == "..." else word for word in kept])
    return found


def arguments(page: str, program: str) -> list[list[str]]:
    """Words behind ``python train.py``, ``ada train`` or another program, of every such command of a page."""
    started = map(_STARTS.match, _code(ROOT / page))
    return [
        shlex.split(re.split(r" & | 2>| \| ", command["rest"])[0], comments=True)
        for command in started
        if command and program in (command["file"], command["name"])
    ]


def _code(page: Path) -> list[str]:
    """Return the lines of a script, of a page's shell blocks and inline code, or those for a shell in a notebook."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    text = text.replace("\\\n", " ")
    if page.suffix == ".md":
        blocks = re.findall(r"^```(?:bash|sh)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        return [line for block in blocks for line in block.splitlines()] + re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
    return [line.removeprefix("!") for line in text.splitlines()]


def figures() -> list[str]:
    """Names of the figures of a run that ``docs/metrics.md`` explains; ``<k>`` stands for anything."""
    return _FIGURE.findall((ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"))


def unexplained(columns: Iterable[str]) -> list[str]:
    """Return the columns of a ``metrics.csv`` that ``docs/metrics.md`` does not explain."""
    known = re.compile("|".join(re.sub("<[a-z]+>", r"[^/]+", re.escape(name)) for name in figures()))
    of_tasks_and_averages = re.compile(r"^eval(_average)?/([^/]+/)?")
    named = {column: of_tasks_and_averages.sub("eval/", column) for column in columns}
    return [column for column, name in named.items() if name not in ("step", "unix_ms") and not known.fullmatch(name)]
