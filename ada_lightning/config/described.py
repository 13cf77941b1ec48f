"""Options and experiments as YAML with comments, to read and to copy: files as they are, others from their classes."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ada_lightning.config.generated import CONFIG_DIR
from ada_lightning.core.checks import similar
from ada_lightning.core.options import first_paragraph, locate
from ada_lightning.methods.catalog import Entry, entries, experiments, groups, names, values_of

WIDTH = 120
_COLUMN = 31
"""Where the comment of a value begins, as in the files of ``conf/``."""


def described(name: str, config_dir: Path = CONFIG_DIR) -> str:
    """Describe an experiment (``coba_rl``), an option (``sampler/coba``, ``sampler=coba``) or a group (``sampler``).

    Returns:
        Of an experiment or option: YAML that composes to the same, if it stands in your own folder. Of a group: its
        options, each with its first sentence.

    Raises:
        LookupError: the name is unknown; the argument of the error names similar ones.
    """
    name = name.lstrip("+").replace("=", "/").removeprefix("experiment/")
    group, _, option = name.rpartition("/")
    for path, chosen in ((f"experiment/{name}", f"+experiment={name}"), (name, f"{group}={option}")):
        if (config_dir / f"{path}.yaml").is_file():
            return (config_dir / f"{path}.yaml").read_text(encoding="utf-8").rstrip()
        if entry := entries().get(path):
            return _as_yaml(entry, f"python train.py {chosen}", "" if path.startswith("experiment/") else group)
    if options := names(config_dir, name):
        return _overview(config_dir, name, options)
    options = [f"{group}/{each}" for group in groups(config_dir) for each in names(config_dir, group)]
    known = [*experiments(config_dir), *options]
    near = similar(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "ada describe lists all of them"
    raise LookupError(f"there is no method and no option named {name}; {hint}")


def overview(config_dir: Path = CONFIG_DIR) -> str:
    """List all experiments and groups, and say what to do with them."""
    shown = [group for group in groups(config_dir) if group.split("/")[0] not in ("hydra", "paper", "experiment")]
    return "\n".join(
        [
            "Methods. Train with one: +experiment=<name>. Read what it does: ada describe <name>",
            _filled(experiments(config_dir)),
            "",
            "Groups of options. See the options of one: ada describe <group>. Choose one: <group>=<option>",
            _filled(shown),
        ]
    )


def _filled(listed: list[str]) -> str:
    text = ", ".join(listed)
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _overview(config_dir: Path, group: str, options: list[str]) -> str:
    lines = [f"{group}=" + " | ".join(options)]
    for name in options:
        entry = entries().get(f"{group}/{name}")
        text = entry.text if entry else _head(config_dir / group / f"{name}.yaml")
        lines.append("  " + textwrap.shorten(f"{name}: {_sentence(text)}", WIDTH - 2, placeholder=" ..."))
    return "\n".join([*lines, *(f"  within it: {below}" for below in groups(config_dir, group))])


def _head(file: Path) -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    return " ".join(line.lstrip("# ") for line in lines[: next((i for i, s in enumerate(lines) if s[:1] != "#"), 0)])


def _sentence(text: str) -> str:
    plain = _unmarked(text.replace("@package _global_ ", ""))
    return re.split(r"(?<=\w\.)(?<!\bDr\.)\s(?=[A-Z])", plain, maxsplit=1)[0]


def _as_yaml(entry: Entry, command: str, group: str) -> str:
    lines = [f"# @package {entry.package}"] if entry.package else []
    said = [line for text in _texts(entry) for line in textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False)]
    lines += [f"# {line}" for line in [command, *said]]
    node = dict(entry.node)
    if listed := node.pop("defaults", None):
        target = node.get("_target_")
        meant = documented(target) if isinstance(target, str) else {}
        lines += ["defaults:", *(line for each in listed for line in _choice(each, group, meant))]
    return "\n".join([*lines, *_commented(node, "")])


def _texts(entry: Entry) -> Iterator[str]:
    """What an option is; where that is its class's docstring, also what the second paragraph and the source say."""
    yield entry.text.replace("``", "")
    target = next(values_of(entry.node, ("_target_",)), None)
    if target is None or first_paragraph(kind := locate(target)) != entry.text:
        return
    second, source = "", ""
    for paragraph in (inspect.getdoc(kind) or "").split("\n\n")[1:]:
        section = re.match(r"[A-Z]\w+:\n", paragraph)
        if section is None and not second and not source:
            second = paragraph
        elif section and section[0] == "Source:\n":
            source = f"Source: {paragraph.removeprefix(section[0])}"
    yield from (" ".join(_unmarked(each).split()) for each in (second, source) if each)


def _choice(listed: Any, group: str, meant: Mapping[str, str]) -> Iterator[str]:
    """An entry of a defaults list, with what it means and the words that can stand in its place."""
    line = f"- {listed}"
    if isinstance(listed, Mapping):
        ((key, name),) = listed.items()
        line = f"- {key}: {name if isinstance(name, str) else json.dumps(name)}"
        within = key.removeprefix("/") if key.startswith("/") else f"{group}/{key}"
        if group and len(others := names(CONFIG_DIR, within)) > 1:
            comment = "; ".join(filter(None, (meant.get(key, ""), f"{within}={' | '.join(others)}")))
            yield from _with_comment(line, comment, "")
            return
    yield line


def _commented(node: Mapping[str, Any], indent: str, texts: Mapping[str, str] | None = None) -> Iterator[str]:
    """Every value of a node on its line, with what its class says of it."""
    texts = documented(node["_target_"]) if isinstance(node.get("_target_"), str) else texts or {}
    for key, value in node.items():
        if isinstance(value, Mapping) and value:
            yield from _with_comment(f"{indent}{key}:", texts.get(key, ""), indent)
            given_to = node.get("path") if key == "arguments" else None  # the class that an environment's pool makes
            yield from _commented(value, f"{indent}  ", documented(given_to) if given_to else None)
        else:
            spelt = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
            written = f"{indent}{key}: {spelt.removesuffix('...' + chr(10)).strip()}"
            yield from _with_comment(written, texts.get(key, ""), indent)


def _with_comment(line: str, comment: str, indent: str) -> Iterator[str]:
    """Put a comment behind a line, or on lines of its own above it where it is long."""
    if not comment:
        yield line
    elif len(behind := f"{line:{_COLUMN - 1}} # {comment}") <= WIDTH:
        yield behind
    else:
        wrapped = textwrap.wrap(comment, WIDTH - len(indent) - 2, break_on_hyphens=False)
        yield from (f"{indent}# {each}" for each in wrapped)
        yield line


@cache
def documented(target: str) -> Mapping[str, str]:
    """Return what a class says of its settings, each on one line.

    From the texts below the fields of dataclasses, and from ``Args:`` of other classes; those of base classes too.
    """
    found: dict[str, str] = {}
    for kind in reversed(inspect.getmro(locate(target))):
        if kind.__module__.startswith("ada_lightning"):
            found |= _arguments(inspect.getdoc(kind) or "") | _fields(kind)
    return {name: _plain_words(text) for name, text in found.items()}


def _plain_words(text: str) -> str:
    """On one line, without the marks of reStructuredText."""
    said = " ".join(_unmarked(text).split()).rstrip(".")
    return said[:1].lower() + said[1:] if said[1:2].islower() else said


def _unmarked(text: str) -> str:
    return re.sub(r":\w+:`~?([^`]+)`", lambda role: role[1].rpartition(".")[2], text).replace("``", "")


def _fields(kind: type) -> dict[str, str]:
    """Texts that stand below annotated fields of a class."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: text.value.value
        for field, text in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def _arguments(text: str) -> dict[str, str]:
    """Texts of the section ``Args:`` of a docstring."""
    section = re.search(r"^Args:\n((?: {4,}.*\n?|\n)+)", text, re.MULTILINE)
    parts = re.findall(r"^ {4}\*{0,2}([\w, ]+): (.*(?:\n {5,}.*)*)", section[1] if section else "", re.MULTILINE)
    return {name.strip(): each for names_, each in parts for name in names_.split(",")}
