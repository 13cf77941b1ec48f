"""``ada objective``: reads configurations, prints what they optimise and writes the page."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ada_lightning.objective.card import TRAINERS, Card, make_card
from ada_lightning.objective.files import parse_value, read_file
from ada_lightning.objective.page import write_page
from ada_lightning.objective.readers.find import trainer_of
from ada_lightning.objective.sentences import Section, sections, table, version_line
from ada_lightning.objective.settings import Settings
from ada_lightning.run.terminal import until_nobody_reads

EXAMPLES = """
examples:
  ada objective grpo.yaml                          the YAML of trl grpo
  ada objective grpo.yaml scale_rewards=none       the same with another setting
  ada objective grpo.yaml verl.sh                  two configurations side by side on one page
  ada objective +experiment=ada objective=log      one of this project's experiments, with settings of ada train
"""
_WIDTH = 110
_CHANGE = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)


_EXPERIMENT = re.compile(r"\+experiment=[\w/.-]+")
Compose = Callable[[Sequence[str]], Mapping[str, Any]]
"""From arguments of ``ada train`` to settings by dotted key."""


@until_nobody_reads()
def main(argv: Sequence[str] | None = None, *, compose: Compose | None = None) -> None:
    """Read, compute, print, write.

    Args:
        argv: arguments after the command's name; those of the process if left out.
        compose: what makes settings of ``+experiment=NAME ...``; None: such arguments are refused.
    """
    arguments = _arguments(argv)
    try:
        cards = [
            _card(words, compose, trainer=arguments.trainer, version=arguments.version)
            for words in _files(arguments.files)
        ]
        print("\n\n".join(as_text(card) for card in cards), flush=True)
        files = write_page(cards, arguments.output)
    except (ValueError, OSError) as error:
        sys.exit("\n".join(f"error: {line}" for line in str(error).splitlines()))
    print(f"\npage: {files[0]} (numbers: {files[1].name})")


def card_of(path: Path, changes: dict[str, Any], *, trainer: str | None = None, version: str | None = None) -> Card:
    """Read one file and compute its card.

    Args:
        path: a configuration.
        changes: settings in the place of the file's.
        trainer: whose file it is; None tells it by the keys.
        version: of the trainer that the person runs.

    Raises:
        RefusedFileError: the file cannot be read.
        SettingError: a value whose meaning is not known, or no known trainer.
    """
    content = read_file(path)
    given = {**content.settings, **changes}
    name = " ".join([str(path), *(f"{key}={value}" for key, value in changes.items())])
    found = trainer_of(given, name, name=trainer, program=content.program)
    return make_card(Settings(found, given, name), version=version, file=shlex.quote(str(path)))


def as_text(card: Card) -> str:
    """Spell everything that the page says, without its picture."""
    head, remedy, *others = sections(card)
    first = [head.sentences[0], remedy.sentences[0]]
    if card.unknown_keys:
        first.append(f"Keys that are not known, and so not read: {len(card.unknown_keys)}; the last line names them.")
    lines = [card.name, *(line for text in first for line in _wrapped(text, "  ")), ""]
    rows = table(card)
    width = max(len(name) for name, _ in rows)
    lines += [f"  {name:<{width}}" + "".join(f"{cell:>9}" for cell in cells) for name, cells in rows]
    lines += ["", *_wrapped(version_line(card), "  ")]
    for section in (Section("Why", head.sentences[1:]), Section(remedy.title, remedy.sentences), *others):
        if section.sentences:
            lines += ["", section.title, *(line for text in section.sentences for line in _wrapped(text, "  - "))]
    return "\n".join(lines)


def _card(words: Sequence[str], compose: Compose | None, *, trainer: str | None, version: str | None) -> Card:
    """Make the card of a file, or of an experiment, with the settings behind it.

    Raises:
        ValueError: it cannot be read, or a setting is not known.
    """
    if compose is not None and _EXPERIMENT.fullmatch(words[0]):
        name = " ".join(words)
        return make_card(Settings(TRAINERS["ada"], compose(words), name), version=version)
    changes = {match[1]: parse_value(match[2], match[0]) for word in words[1:] if (match := _CHANGE.fullmatch(word))}
    return card_of(Path(words[0]), changes, trainer=trainer, version=version)


def _files(words: Sequence[str]) -> list[list[str]]:
    """Give each file, or experiment, the settings behind it.

    Raises:
        ValueError: a setting stands before the first file.
    """
    found: list[list[str]] = []
    for word in words:
        is_setting = _CHANGE.fullmatch(word.lstrip("+~")) and not _EXPERIMENT.fullmatch(word)
        if not is_setting or Path(word).exists():
            found.append([word])
        elif not found:
            raise ValueError(f"{word} stands before any file; write: ada objective FILE {word}")
        else:
            found[-1].append(word)
    return found


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="ada objective",
        description="Read a trainer's configuration, and say what its update really optimises: how a prompt's\n"
        "gradient is weighed by its pass rate, what length does, what happens to special cases. Nothing is executed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE [KEY=VALUE ...]", help="configurations, each with settings to change")
    add("--trainer", choices=list(TRAINERS), help="whose configurations they are (default: told by their keys)")
    add("--version", help="of the trainer that you run, to hear whether it was checked")
    add(
        "--output",
        type=_html,
        default=Path("objective.html"),
        help="page to write (default: objective.html), and .json",
    )
    return parser.parse_args(argv)


def _html(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".html", ".htm"):
        raise argparse.ArgumentTypeError(f"{text} must end in .html: the numbers are named after it")
    return path


def _wrapped(text: str, begin: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=begin,
        subsequent_indent=" " * len(begin),
        break_on_hyphens=False,
        break_long_words=False,
    )
