"""Docstrings for the site: what they have of reStructuredText becomes Markdown. mkdocstrings loads it (zensical.toml).

The code writes ``:func:`~a.b.c```, tables between lines of ``=`` and examples that start with ``>>>``; pages are
Markdown. Needs griffe, which ``requirements/docs.txt`` brings.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod|obj):`(~?)([\w.]+)`")
_EXAMPLE = re.compile(r"^([ ]*)>>> .*(?:\n(?=.*\S).*)*\n?", re.MULTILINE)
"""From a prompt to the next empty line."""
_RULE = re.compile(r"^\s*=+(?:\s+=+)+\s*$")


class MarkdownDocstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite that of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Return a docstring with links for roles, its tables as Markdown has them and its examples as code."""
    return _EXAMPLE.sub(_fenced, _ROLE.sub(_link, _with_tables(text)))


def _fenced(found: re.Match[str]) -> str:
    margin, example = found[1], found[0].rstrip()
    return f"{margin}```pycon\n{example}\n{margin}```\n"


def _link(found: re.Match[str]) -> str:
    """Return code that links where the page of what it names exists: private parts have none."""
    is_short, name = found[1] == "~", found[2]
    shown = name.rpartition(".")[2] if is_short else name
    if not name.startswith(("ada_lightning.", "callbacks.")):
        return f"`{shown}`"
    return f'<autoref identifier="{name}" optional><code>{shown}</code></autoref>'


def _with_tables(text: str) -> str:
    """Return the text with every table of three rules (above and below the head, at the end) rewritten."""
    lines = text.split("\n")
    rules = [index for index, line in enumerate(lines) if _RULE.match(line)]
    made: list[str] = []
    done = 0
    for first, middle, last in zip(rules[::3], rules[1::3], rules[2::3], strict=False):
        made += [*lines[done:first], *_table(lines[first], lines[first + 1 : middle], lines[middle + 1 : last])]
        done = last + 1
    return "\n".join([*made, *lines[done:]])


def _table(rule: str, head: list[str], body: list[str]) -> list[str]:
    starts = [found.start() for found in re.finditer(r"=+", rule)]
    margin = rule[: starts[0]]

    def cells(line: str) -> list[str]:
        bounds = [*starts, max(len(line), starts[-1])]
        return [line[start:end].strip().replace("|", "\\|") for start, end in pairwise(bounds)]

    rows: list[list[str]] = []
    for line in body:
        row = cells(line)
        if rows and not row[0]:  # goes on from the line above
            rows[-1] = [f"{above} {more}".strip() for above, more in zip(rows[-1], row, strict=True)]
        elif any(row):
            rows.append(row)
    shown = [cells(head[0]), ["---"] * len(starts), *rows]
    return [margin + "| " + " | ".join(row) + " |" for row in shown]
