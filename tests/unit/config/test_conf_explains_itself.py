"""Every file in conf/ says what it is, and every value what it does.

The rule. A file begins with a comment (after ``# @package``). A value has a comment in its own line or in the line
above it; the comment that a file begins with is about the file. Exempt are:

- ``_target_`` and Hydra's other keys, entries of a defaults list, and interpolations: they say where to look;
- names of experiments, revisions of models and the texts of ``--help``: they say what they are;
- keys that override: in a file that builds on others (it has a defaults list) a key that another file explains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

CONF = Path(__file__).resolve().parents[3] / "conf"
FILES = sorted(CONF.rglob("*.yaml"))
SELF_EVIDENT = {"experiment_name", "revision", "app_name", "header", "choices", "footer", "template"}
VALUE = re.compile(r"^(?P<indent> *)(?P<key>[\w.]+): +(?P<value>[^#\s].*?)(?: +# *(?P<comment>.+))?$")


def names_of(file: Path) -> str:
    return str(file.relative_to(CONF))


def values(text: str) -> Iterator[tuple[str, str, bool]]:
    """Key, value and whether a comment explains it, of every scalar."""
    is_in_block, block_indent, above = False, 0, ""
    lines = text.splitlines()
    while lines and lines[0].startswith("#"):  # what the file is
        lines = lines[1:]
    for line in lines:
        if is_in_block and (not line.strip() or len(line) - len(line.lstrip()) > block_indent):
            continue  # text of a block scalar
        is_in_block = False
        if match := VALUE.match(line):
            yield match["key"], match["value"], bool(match["comment"]) or above.lstrip().startswith("#")
            if match["value"][0] in "|>":
                is_in_block, block_indent = True, len(match["indent"])
        above = line


def explained(text: str) -> set[str]:
    return {key for key, _, has_comment in values(text) if has_comment}


EXPLAINED = {file: explained(file.read_text(encoding="utf-8")) for file in FILES}


def bare_values(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    builds_on_others = re.search(r"^defaults:", text, re.MULTILINE) is not None
    elsewhere = (
        set().union(*(keys for other, keys in EXPLAINED.items() if other != file)) if builds_on_others else set()
    )
    return [
        f"{key}: {value}"
        for key, value, has_comment in values(text)
        if not has_comment
        and not key.startswith("_")
        and not value.startswith(("${", '"${'))
        and key not in SELF_EVIDENT
        and key not in elsewhere
    ]


def begins_with_a_comment(text: str) -> bool:
    lines = [line for line in text.splitlines() if not line.startswith("# @package")]
    return bool(lines) and re.match(r"# *\w{2,}|# *[\w.-]+", lines[0]) is not None


def test_every_file_says_what_it_is():
    assert [names_of(file) for file in FILES if not begins_with_a_comment(file.read_text(encoding="utf-8"))] == []


def test_every_value_says_what_it_does_and_its_unit():
    assert {names_of(file): bare for file in FILES if (bare := bare_values(file))} == {}


def test_the_rule_sees_a_bare_value_and_not_the_text_of_a_block():
    text = "# What it is\na: 1\nb: 2  # tokens\n# seconds\nc: 3\nd: |-  # a text\n  e: 5\n_target_: x\ng: ${seed}\n"
    assert [(key, has_comment) for key, _, has_comment in values(text)] == [
        ("a", False),
        ("b", True),
        ("c", True),
        ("d", True),
        ("_target_", False),
        ("g", False),
    ]
    assert not begins_with_a_comment("# @package _global_\nseed: 1\n")
