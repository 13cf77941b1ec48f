"""Reads configuration files that anybody may have written: nothing of them runs, and what is large or deep is refused.

A file becomes flat settings, ``{"actor.clip_ratio": 0.2}``. YAML without tags, JSON, TOML, or a text with a shell
command, which is split into words and never started.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ada_lightning.audit.untrusted import Limits, RefusedFileError, checked, printable, shown

MAX_BYTES = 512 * 2**10
MAX_DEPTH = 30
MAX_NODES = 20_000
"""Values of a file, those that an alias repeats counted each time."""
MAX_SCALAR = 20_000
"""Characters of a value."""
_PICKLES = {".bin", ".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib"}
_COMMANDS = {".sh", ".bash", ".txt", ".cmd", ".slurm", ".sbatch", ""}
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_OVERRIDE = re.compile(r"(?:\+\+|\+|~)?([A-Za-z_][\w.@/-]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^{}$]*))?\}|(\w+))")
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?([\w.]+)(?:, ?([\w.-]*))?\}")
_ARITHMETIC = re.compile(r"\$\(\(([^()\n]{1,200})\)\)")
_SEPARATORS = frozenset(";&|\n")


@dataclass(frozen=True)
class Unresolved:
    """A value that only a shell or another program knows."""

    text: str


@dataclass(frozen=True)
class Content:
    """What stands in a file."""

    settings: Mapping[str, Any]
    """By dotted key. A list is a value."""
    program: tuple[str, ...] = ()
    """The words of a command before its settings."""
    is_command: bool = False


def read_file(path: Path) -> Content:
    """Read one configuration.

    Raises:
        RefusedFileError: it is no such file, too large, too deep, or holds what could run or grow.
    """
    if path.suffix in _PICKLES:
        raise RefusedFileError(
            f"{shown(path)} looks like a pickle, and reading one could run code. Save the settings as JSON: "
            "training_args.to_json_string()"
        )
    if not path.exists():
        raise RefusedFileError(f"{shown(path)} does not exist")
    if path.is_dir():
        raise RefusedFileError(f"{shown(path)} is a folder; give the configuration file")
    size = checked(path, Limits()).stat().st_size
    if size > MAX_BYTES:
        raise RefusedFileError(
            f"{shown(path)} has {size / 2**10:.0f} KiB, more than the {MAX_BYTES // 2**10} of a configuration; give "
            "the file of settings alone"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise RefusedFileError(f"{shown(path)} is not text in UTF-8") from None
    content = _parsed(path, text)
    if not content.settings:
        raise RefusedFileError(f"{shown(path)} has no setting in it")
    return content


def parse_value(text: str, where: str) -> Any:
    """Read a value of a command line as YAML would, with the same limits.

    Raises:
        RefusedFileError: it holds a tag, or is too long or deep.
    """
    if _VARIABLE.search(text) or "$(" in text or "`" in text:
        return Unresolved(text)
    try:
        return _yaml(text, where)
    except RefusedFileError as error:
        if "is not YAML" in str(error):
            return text
        raise


def _parsed(path: Path, text: str) -> Content:
    where = shown(path)
    try:
        if path.suffix == ".json":
            return Content(_flat(json.loads(text), where))
        if path.suffix == ".toml":
            return Content(_flat(tomllib.loads(text), where))
        if path.suffix in (".yaml", ".yml"):
            return Content(_flat(_yaml(text, where), where))
    except RecursionError:
        raise RefusedFileError(f"{where} is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:  # of json and tomllib; a refusal is one too
        if isinstance(error, RefusedFileError):
            raise
        raise RefusedFileError(f"{where} is not {path.suffix[1:].upper()} ({type(error).__name__})") from None
    if path.suffix in _COMMANDS:
        return _command(text, where)
    raise RefusedFileError(
        f"{where}: a file that ends in {printable(path.suffix)} is not read; give .yaml, .json, .toml, or a command "
        "in .sh or .txt"
    )


def _yaml(text: str, where: str) -> Any:
    """Load YAML whose events were counted first: nothing is built of a file that is refused."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _count(yaml.parse(text, Loader=loader), where)
        return yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, RefusedFileError):
            raise
        raise RefusedFileError(f"{where} is not YAML ({type(error).__name__})") from None


def _count(events: Iterator[Any], where: str) -> None:
    """Refuse tags, deep nesting, many values, and aliases that make many.

    Raises:
        RefusedFileError: whichever of these comes first.
    """
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []  # anchor, and the values before it
    nodes = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise RefusedFileError(f"{where}: the alias *{printable(event.anchor)} stands inside of what it names")
            nodes += sizes[event.anchor]
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            sizes |= {anchor: nodes - before} if anchor else {}
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            _check_node(event, where)
            nodes += 1
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append((event.anchor, nodes - 1))
            elif event.anchor:
                sizes[event.anchor] = 1
        if len(open_) > MAX_DEPTH:
            raise RefusedFileError(f"{where} is nested deeper than {MAX_DEPTH} levels")
        if nodes > MAX_NODES:
            raise RefusedFileError(f"{where} has more than {MAX_NODES} values, aliases repeated")


def _check_node(event: Any, where: str) -> None:
    if event.tag is not None:
        raise RefusedFileError(f"{where}: the tag {printable(event.tag)} is not read; leave tags out")
    if isinstance(event, yaml.ScalarEvent) and len(event.value) > MAX_SCALAR:
        raise RefusedFileError(f"{where}: a value has more than {MAX_SCALAR} characters")


def _flat(content: Any, where: str) -> dict[str, Any]:
    """Return dotted keys, with simple references to other keys put in.

    Raises:
        RefusedFileError: it is no mapping, too deep, or has too many values.
    """
    if not isinstance(content, dict):
        raise RefusedFileError(f"{where} is no mapping of settings")
    found: dict[str, Any] = {}
    waiting: list[tuple[str, Any, int]] = [("", content, 0)]
    while waiting:
        prefix, value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise RefusedFileError(f"{where} is nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, dict) and (value or not prefix):
            for key, item in value.items():
                if not isinstance(key, str):
                    raise RefusedFileError(f"{where}: a key under {printable(prefix or 'the top')} is no text")
                waiting.append((f"{prefix}.{key}" if prefix else key, item, depth + 1))
        elif value != "???":  # OmegaConf's word for a value that is still missing
            found[prefix] = value
        if len(found) + len(waiting) > MAX_NODES:
            raise RefusedFileError(f"{where} has more than {MAX_NODES} values")
    return {key: _referred(value, found) for key, value in found.items()}


def _referred(value: Any, settings: Mapping[str, Any]) -> Any:
    """Follow ``${a.b}`` and ``${oc.select:a.b,default}``, if that is all of a value; others stay unresolved."""
    for _ in range(5):
        if not isinstance(value, str) or "${" not in value:
            return value
        reference = _REFERENCE.fullmatch(value)
        if reference and reference[1] in settings:
            value = settings[reference[1]]
        elif reference and reference[2]:
            return parse_value(reference[2], reference[1])
        else:
            break
    return Unresolved(value) if isinstance(value, str) and "${" in value else value


@dataclass
class _Words:
    """One command of a script: words before the settings, and the settings."""

    program: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)


def _command(text: str, where: str) -> Content:
    """Split a script into commands, and return the one with the most settings.

    Raises:
        RefusedFileError: a quote that is not closed, or variables that grow.
    """
    variables: dict[str, str] = {}
    best = _Words()
    for words in _commands(text, where):
        assigned = _assignments(words)
        if assigned is not None:
            for name, value in assigned:
                variables[name] = _expanded(value, variables, where)
            continue
        found = _of_words([_expanded(word, variables, where) for word in words], where)
        if len(found.settings) > len(best.settings):
            best = found
    return Content(best.settings, tuple(best.program), is_command=True)


def _commands(text: str, where: str) -> Iterator[list[str]]:
    """Yield the words of each command; comments and line breaks inside of a command are left out."""
    joined = re.sub(r"\\\r?\n", " ", text)
    joined = _ARITHMETIC.sub(lambda match: "$((" + re.sub(r"\s", "", match[1]) + "))", joined)
    joined = re.sub(r"(?m)(^|[ \t])#[^\n'\"]*$", "", joined)
    lexer = shlex.shlex(joined, posix=True, punctuation_chars=";&|\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    count = 0
    try:
        for word in lexer:
            count += 1
            if count > MAX_NODES:
                raise RefusedFileError(f"{where} has more than {MAX_NODES} words")
            if word and set(word) <= _SEPARATORS:
                if words:
                    yield words
                words = []
            else:
                words.append(word)
    except ValueError as error:
        if isinstance(error, RefusedFileError):
            raise
        raise RefusedFileError(f"{where}: a quote or a backslash of the command is not closed") from None
    if words:
        yield words


def _assignments(words: Sequence[str]) -> list[tuple[str, str]] | None:
    """``NAME=value ...``, if a command is nothing else."""
    rest = words[1:] if words[0] in ("export", "local", "readonly", "declare") else words
    found = [_ASSIGNMENT.fullmatch(word) for word in rest]
    return [(match[1], match[2]) for match in found if match] if rest and all(found) else None


def _expanded(word: str, variables: Mapping[str, str], where: str) -> str:
    """Put in the variables that the script itself sets to a text."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        return variables.get(name, match[2] if match[2] is not None else match[0])

    word = _ARITHMETIC.sub(lambda match: _calculated(match[0], match[1], variables), word)
    found = _VARIABLE.sub(value, word)
    if len(found) > MAX_SCALAR:
        raise RefusedFileError(f"{where}: a value has more than {MAX_SCALAR} characters once its variables are put in")
    return found


def _calculated(whole: str, text: str, variables: Mapping[str, str]) -> str:
    """Sums and products of a few whole numbers, as ``$((1024 * 8))``; anything else stays as it is."""
    total = 0
    for sign, term in re.findall(r"([+-]?)([^+-]+)", text):
        product = -1 if sign == "-" else 1
        for factor in term.split("*"):
            name = factor.strip().lstrip("$").strip("{}")
            number = variables.get(name, name)
            if not re.fullmatch(r"\d{1,9}", number) or abs(product) > 10**12:
                return whole
            product *= int(number)
        total += product
    return str(total)


def _of_words(words: Sequence[str], where: str) -> _Words:
    """Tell settings from other words: ``--key value``, ``--key=value``, ``--flag``, ``key=value``, ``+key=value``."""
    found = _Words()
    key = ""
    values: list[Any] = []

    def finish() -> None:
        if key:
            found.settings[key] = True if not values else values[0] if len(values) == 1 else list(values)

    for word in words:
        if word == "--":  # what stands before are the options of a launcher
            found, key, values = _Words(found.program), "", []
        elif not found.program and not key and _ASSIGNMENT.fullmatch(word):
            continue  # a variable of the environment, for this command alone
        elif word.startswith("--"):
            finish()
            name, is_given, value = word[2:].partition("=")
            key, values = name, [parse_value(value, where)] if is_given else []
        elif override := _OVERRIDE.fullmatch(word):
            finish()
            key, values = "", []
            found.settings[override[1]] = parse_value(override[2], where)
        elif key:
            values.append(parse_value(word, where))
        elif not found.settings:
            found.program.append(word)
    finish()
    return found
