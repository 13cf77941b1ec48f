"""Every number of the pages' own words stands in a table that a command makes, in a file, or in a list with a reason.

Looked at are decimal fractions, percentages and ``value [low, high]`` of prose and of tables by hand, without code,
links, versions and the levels of intervals. A page's own generated tables count; ``quoted_sources.py`` has what else
does, and is red where it lists what a page does not quote any more.

Not seen: whole numbers without ``%``; signs; whether a number says what its sentence says. One that is changed into
another figure of the same tables passes: of changes by at most five units in the last place all are seen of a value
with its interval, two of three of a fraction, three of four of a percentage. A source in words is believed.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from functools import cache

import pytest

from ada_lightning.audit.command import main as audit
from tests.unit.documented import PAGES, ROOT
from tests.unit.quoted_sources import NUMBERS, TABLES

QUOTING = [page for page in PAGES if page.endswith(".md")]
LEVELS = {"95 %", "97.5 %"}
"""Of intervals."""
GENERATED = re.compile(r"<!-- table: [\w-]+ -->.*?<!-- end -->", re.DOTALL)
_DROPPED = [
    GENERATED,
    re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL),
    re.compile(r"<!--.*?-->|(?<=\])\([^)]*\)|`[^`\n]*`|<[^>]*>|https?://\S+|arXiv:\S+", re.DOTALL),
]
_PLAIN = r"\d+(?:,\d{3})*(?:\.\d+)?"
_VERSION = re.compile(
    r"\b(?:Python|vLLM|TRL|verl|[Tt]orch|transformers|math-verify|tinker-cookbook|version|Apache)"
    rf"[ -]{_PLAIN}(?: to {_PLAIN})?"
)
_RANGE = re.compile(rf"[+-]?({_PLAIN})(?: ?%)?\s+\[[+-]?({_PLAIN}), [+-]?({_PLAIN})\]")
_TO = re.compile(rf"({_PLAIN})\s+to\s+({_PLAIN}\s?%)")
_NUMBER = re.compile(rf"(?<![\w.])(?:{_PLAIN}\s?%|\d+(?:,\d{{3}})*\.\d+(?!\w|\.\d))")


@cache
def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def quoted(text):
    """Numbers of a page's own words: ``0.15``, ``44 %``, ``1.2 [1.1, 1.3]``; without signs."""
    for pattern in _DROPPED:
        text = pattern.sub(" ", text)
    rest = _TO.sub(r"\1 % to \2", _VERSION.sub(" ", _RANGE.sub(" ", text)))
    return ranges(text) | {re.sub(r"\s?%", " %", number) for number in _NUMBER.findall(rest)} - LEVELS


def ranges(text):
    return {f"{value} [{low}, {high}]" for value, low, high in _RANGE.findall(text)}


@cache
def in_tables(page):
    """Numbers of a page's generated tables, as :func:`quoted` spells them."""
    tables = " ".join(GENERATED.findall(read(page)))
    shares = {f"{share} %" for share in re.findall(rf"({_PLAIN}) ?%", tables)}
    return ranges(tables) | shares | set(re.findall(_PLAIN, tables))


def stands_in(number, page):
    return any(number in in_tables(other) for other in [page, *TABLES.get(page, [])])


def is_near(value, number):
    """Whether a value rounds to the number as it is written; a half may have been rounded either way."""
    figure = number.removesuffix(" %").replace(",", "")
    return abs(abs(value) - float(figure)) <= 0.5000001 * 10 ** -len(figure.partition(".")[2])


def values(node):
    if isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from values(child)
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield float(node)


@cache
def in_file(name, way=""):
    """Every number of a JSON or JSON lines file, below the keys of the way."""
    text = read(name)
    node = [json.loads(row) for row in text.splitlines()] if name.endswith("l") else json.loads(text)
    for key in filter(None, way.split("/")):
        node = node[int(key)] if isinstance(node, list) else node[key]
    return frozenset(values(node))


@cache
def audited(command):
    """What ``ada audit`` prints of a committed log."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        audit([str(ROOT / command.split()[-1]), "--output", f"{folder}/audit.html"])
    return printed.getvalue()


def has_source(number, source, page):
    """Whether the source has the number, as ``quoted_sources.py`` says; one in words has."""
    text = re.compile(rf"(?<![\w.]){re.escape(number.replace(' %', ''))}0*(?![\w.]*\d)")
    if file := re.fullmatch(r"(docs/\S+\.jsonl?) ?(\S*)", source):
        return any(is_near(value * (100 if "%" in number else 1), number) for value in in_file(*file.groups()))
    if re.fullmatch(r"(?:conf|ada_lightning|tests)/\S+", source):
        return text.search(read(source)) is not None
    if source.startswith("= "):
        literals = set(re.findall(_PLAIN, source)) - {"1", "100"}
        assert {literal for literal in literals if not stands_in(literal, page)} == set()
    if source.startswith(("= ", "calc ")):
        return is_near(eval(source.partition(" ")[2], {"__builtins__": {}}), number)
    if source.startswith("ada audit "):
        return text.search(audited(source).replace(" %", "")) is not None
    return True


@pytest.mark.parametrize("page", QUOTING)
def test_a_number_of_a_page_has_a_source(page):
    listed, found = NUMBERS.get(page, {}), quoted(read(page))
    assert sorted(number for number in found - set(listed) if not stands_in(number, page)) == []
    assert [number for number, source in listed.items() if not has_source(number, source, page)] == []
    assert sorted(set(listed) - found) == [], "is not quoted any more; take it off the list"
