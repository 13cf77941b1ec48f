"""Commands of this project's programs as its pages and scripts have them."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"docs/experiments.md", "docs/notebooks/first_run.md"}
"""Pages that only a build of the site makes."""
PAGES = [
    *("README.md", "CONTRIBUTING.md", "docs/notebooks/first_run.ipynb"),
    *sorted({str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")} - GENERATED),
]
_OTHERS = (
    *("ada_lightning/adapters/", "ada_lightning/audit/", "ada_lightning/objective/"),
    *("docs/objective.md", "docs/own_loop.md", "docs/trl.md", "docs/verl.md"),
)
"""Where settings are those of other programs, or arguments of a call."""
SOURCES = [
    name
    for folder, pattern in (("conf", "*.yaml"), ("ada_lightning", "*.py"), ("callbacks", "*.py"))
    for file in sorted((ROOT / folder).rglob(pattern))
    if not (name := str(file.relative_to(ROOT))).startswith(_OTHERS)
]
"""Files whose comments, docstrings and messages name settings."""
_SETTING = re.compile(
    r"(?<![\w.\-/@{<$=\"'+~])(?P<key>[+~]{0,2}[a-z_]\w*(?:[./]\w+)*)="
    r"(?P<value>\{[^{}]*\}|\[[^\[\]]*\]|(?:<[^<>]*>|[^\s`,;)(\"'=\[\]{}<>])*)(?![=(\w])"
)
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


def settings() -> Iterator[tuple[str, list[str]]]:
    """What stands as ``key=value`` in one line of a page, a comment, a docstring or a message, with the file's name.

    A value that is left open (``...``, ``<name>``) or made by the code is empty. Which keys are settings is not asked.
    """
    for page in (*PAGES, *SOURCES):
        if not page.startswith(_OTHERS) and not page.endswith(".ipynb"):
            for line in _code(ROOT / page):
                line = re.sub(r"(?<=\w)\([^()]*\)", "()", line)  # arguments of a call
                found = [(match["key"], match["value"].rstrip(".:?")) for match in _SETTING.finditer(line)]
                yield page, [f"{key}={'' if '<' in value else value}" for key, value in found]


@cache
def _code(page: Path) -> list[str]:
    """Return where a file names settings or commands: line by line, each from the program on that it starts.

    Of a page the shell blocks and inline code, of a notebook the lines for a shell, of a configuration the comments, of
    a module its texts but for examples.
    """
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".yaml":
        return _from_program(re.findall(r"(?:^|\s)# ?(.*)", text))
    if page.suffix == ".py":
        lines = [line for said in _texts(ast.parse(text)) for line in said.splitlines()]
        return _from_program(line for line in lines if not re.match(r" *(>>>|\.\.\.) ", line))
    if page.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    text = text.replace("\\\n", " ")
    if page.suffix == ".md":
        blocks = re.findall(r"^```(?:bash|sh)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        return [line for block in blocks for line in block.splitlines()] + re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
    return [line.removeprefix("!") for line in text.splitlines()]


def _texts(node: ast.AST) -> Iterator[str]:
    """Strings of a module; ``<>`` stands for what one with fields is filled with."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "<>" for part in node.values)
    elif isinstance(node, ast.Constant):
        yield from [node.value] if isinstance(node.value, str) else []
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def _from_program(lines: Iterable[str]) -> list[str]:
    return [re.sub(r"^.*?(?=python3? \w+\.py )", "", line).strip("`") for line in lines]


def figures() -> list[str]:
    """Names of the figures of a run that ``docs/metrics.md`` explains; ``<k>`` stands for anything."""
    return _FIGURE.findall((ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"))


def unexplained(columns: Iterable[str]) -> list[str]:
    """Return the columns of a ``metrics.csv`` that ``docs/metrics.md`` does not explain."""
    known = re.compile("|".join(re.sub("<[a-z]+>", r"[^/]+", re.escape(name)) for name in figures()))
    of_tasks_and_averages = re.compile(r"^eval(_average)?/([^/]+/)?")
    named = {column: of_tasks_and_averages.sub("eval/", column) for column in columns}
    return [column for column, name in named.items() if name not in ("step", "unix_ms") and not known.fullmatch(name)]
