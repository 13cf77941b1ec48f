"""Every file in conf/ says what it is, and every value what it does.

The rule. A file begins with a comment (after ``# @package``). A value has a comment in its own line or in the line
above it; the comment that a file begins with is about the file. Exempt are:

- ``_target_`` and Hydra's other keys, entries of a defaults list, and interpolations: they say where to look;
- names of experiments, revisions of models and the texts of ``--help``: they say what they are;
- keys that override: in a file that builds on others (it has a defaults list) a key that another file explains, or
  that a generated option has: its class explains it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ada_lightning.methods.catalog import entries

CONF = Path(__file__).resolve().parents[3] / "conf"
FILES = sorted(CONF.rglob("*.yaml"))
SELF_EVIDENT = {"experiment_name", "revision", "app_name", "header", "choices", "footer", "template"}
VALUE = re.compile(r"^(?P<indent> *)(?P<key>[\w.]+): +(?P<value>[^#\s].*?)(?: +# *(?P<comment>.+))?$")


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


TEXTS = {file.relative_to(CONF).as_posix(): file.read_text(encoding="utf-8") for file in FILES}
EXPLAINED = {name: {key for key, _, has_comment in values(text) if has_comment} for name, text in TEXTS.items()}


@cache
def generated_keys() -> frozenset[str]:
    """Keys of every option that is made from a class."""

    def keys(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            yield from node
            node = list(node.values())
        for each in node if isinstance(node, list) else ():
            yield from keys(each)

    options = [entry.node for path, entry in entries().items() if not path.startswith("experiment/")]
    return frozenset(keys(options))


def bare_values(name: str) -> list[str]:
    builds_on_others = re.search(r"^defaults:", TEXTS[name], re.MULTILINE) is not None
    others = [keys for other, keys in EXPLAINED.items() if other != name] if builds_on_others else []
    exempt = SELF_EVIDENT.union(*others, generated_keys() if builds_on_others else ())
    return [
        f"{key}: {value}"
        for key, value, has_comment in values(TEXTS[name])
        if not (has_comment or key.startswith("_") or value.startswith(("${", '"${')) or key in exempt)
    ]


def test_every_file_says_what_it_is():
    first = {name: re.sub(r"^# @package.*\n", "", text) for name, text in TEXTS.items()}
    assert [name for name, text in first.items() if not re.match(r"# *[\w.-]+", text)] == []


def test_every_value_says_what_it_does_and_its_unit():
    assert sum(len(keys) for keys in EXPLAINED.values()) > 200  # the pattern still finds values
    assert {name: bare for name in TEXTS if (bare := bare_values(name))} == {}
