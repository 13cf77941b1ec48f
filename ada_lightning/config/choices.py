"""The options that a program has, for its ``--help``: read from the configuration, so never out of date."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from ada_lightning.methods import catalog
from ada_lightning.methods.catalog import all_names, names
from ada_lightning.run.terminal import start_of

WIDTH = 118
INDENT = 14


def register_choices(config_dir: Path) -> None:
    """Make ``${choices:<config>,<group>...}`` known, which ``conf/hydra/help`` uses.

    It lists the groups in the defaults list of the named primary config, and the further groups that are named. Each
    group has the comment of the defaults list and its options, with a star behind the default. A group with ``~``
    before it is left out: the program does not read it.

    ``${names:<group>}`` lists only the options of a group. ``${start:<program>}`` is the words that start a program.
    ``${model_name:${model}}`` is for names of runs: the last part of a model's path, or else its class
    (``conf/paper``).
    """

    def choices(config: str, *groups: str) -> str:
        return describe_choices(config_dir, config, groups)

    def names_of(group: str) -> str:
        return _entry("", ", ".join(_names(config_dir, group)))

    OmegaConf.register_new_resolver("choices", choices, replace=True)
    OmegaConf.register_new_resolver("names", names_of, replace=True)
    OmegaConf.register_new_resolver("start", lambda program: " ".join(start_of(program)), replace=True)
    OmegaConf.register_new_resolver("model_name", _model_name, replace=True)


def describe_choices(config_dir: Path, config: str, groups: tuple[str, ...] = ()) -> str:
    """Describe the groups of a primary config, one paragraph each.

    Raises:
        ValueError: there is no such config or group.
    """
    file = config_dir / f"{config}.yaml"
    if not file.is_file():
        raise ValueError(f"{file} does not exist")
    named = [group.removeprefix("~") for group in groups]
    left_out = {group.removeprefix("~") for group in groups if group.startswith("~")}
    if missing := [group for group in named if not all_names(config_dir, group)]:
        raise ValueError(f"{config_dir} has no group {', '.join(missing)}")
    defaults = {match["group"]: match for match in _defaults(file.read_text(encoding="utf-8"))}
    within = catalog.groups(config_dir)
    lines = []
    for group in [*defaults, *named]:
        if group in left_out:
            continue
        chosen, meaning = (defaults[group]["choice"], defaults[group]["meaning"]) if group in defaults else ("", "")
        listed = ", ".join(f"{name}*" if name == chosen else name for name in _names(config_dir, group))
        lines.append(_entry(group, f"{meaning}: {listed}" if meaning else listed))
        shown = {name for name in within if name.startswith(f"{group}/")} - left_out - defaults.keys()
        lines += [_entry(name, ", ".join(_names(config_dir, name))) for name in sorted(shown)]
    return "\n".join(lines)


def _model_name(model: DictConfig) -> str:
    """Last part of a model's path, or else its class."""
    return Path(model.path).name if model.get("path") else str(model["_target_"]).rpartition(".")[2]


def _defaults(text: str) -> Iterator[re.Match[str]]:
    """Lines of a defaults list that choose from a group of ours."""
    return re.finditer(r"^  - (?P<group>[\w/]+): \[?(?P<choice>\w+)\]? *(?:# *(?P<meaning>.*))?$", text, re.MULTILINE)


def _names(config_dir: Path, group: str) -> list[str]:
    """Options of a group, without those that others build on; a folder of experiments is one entry."""
    below = Counter(name.partition("/")[0] for name in all_names(config_dir, group) if "/" in name)
    folders = sorted(below.items()) if group == "experiment" else []
    return names(config_dir, group) + [f"{name}/... ({count})" for name, count in folders]


def _entry(name: str, text: str) -> str:
    head = f"  {name:{INDENT - 3}} " if len(name) < INDENT - 2 else f"  {name}  "
    return textwrap.fill(text, WIDTH, initial_indent=head, subsequent_indent=" " * INDENT, break_on_hyphens=False)
