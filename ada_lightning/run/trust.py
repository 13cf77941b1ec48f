"""Checks what the settings in a run folder would run: the folder may come from anybody."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

OWN_PACKAGES = ("ada_lightning.data", "ada_lightning.rewards")
"""Their classes read prompts and grade. None runs code that a setting names, except by a ``path`` to a function."""
HARMLESS: Mapping[str, Any] = {"address": "local", "master_address": "127.0.0.1", "output_file": None}
"""Settings that send work to a host or write a file, each with its one harmless value."""
PASSED_ON = ("extra", "environment")
"""Mappings passed on to vLLM or to a process as they are. They can name a class to load or a library to preload."""


def check_stored(
    settings: Mapping[str, Any], *, shipped: Callable[..., frozenset[str]], argv: Sequence[str], where: str
) -> None:
    """Refuse stored settings that name code which neither this program nor its user named.

    They may name classes of the packages that read and grade, whatever the options of their group name, and what
    stands on this command line. Nothing is instantiated, and only modules of this project are imported.

    Args:
        settings: parts of a stored configuration by their group, plain; as the file has them.
        shipped: returns what the options of a group that ship name, under some keys: ``_target_`` unless given.
        argv: command line, which overrides single keys and may name functions.
        where: the folder, for the message.

    Raises:
        ValueError: they name something else; the text lists all of it with the way out.
    """
    given = frozenset(line.partition("=")[0].lstrip("+~") for line in argv)
    named = frozenset(re.findall(r"[\w.]+", " ".join(line.partition("=")[2] for line in argv)))
    named |= shipped("environment", "_target_", "path")  # what comes along runs nothing that it is told
    refused = [
        f"  {key} = {value!r}"
        for part, node in settings.items()
        for key, value in _refused(str(part), node, shipped(str(part)) | named, named)
        if key not in given
    ]
    if refused:
        text = "\n".join(refused)
        raise ValueError(
            f"the settings of {where} would run code that is not in this program and not named on this command line. "
            f"Found:\n{text}\nIf you trust the folder, name these with the values you expect (as in "
            "reward.reward.path=my_rewards.grade), or add trust=true, which runs all of them. Otherwise choose your "
            "own parts (data=... data/format=..., reward=..., rollout=... environment=...)"
        )


def _refused(key: str, node: Any, allowed: Collection[str], named: Collection[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        yield from _refused_of_mapping(key, node, allowed, named)
    elif isinstance(node, list | tuple):
        for index, item in enumerate(node):
            yield from _refused(f"{key}.{index}", item, allowed, named)
    elif isinstance(node, str) and "${" in node:  # settings are stored resolved, and a resolver reads the environment
        yield key, node


def _refused_of_mapping(
    key: str, node: Mapping[Any, Any], allowed: Collection[str], named: Collection[str]
) -> Iterator[tuple[str, Any]]:
    target = node.get("_target_")
    if "_target_" in node and not (isinstance(target, str) and (target in allowed or _is_own(target))):
        yield f"{key}._target_", target
    for name, value in node.items():
        path = f"{key}.{name}"
        if name in PASSED_ON and path != "rollout.environment":  # which is a part with a class of its own
            yield from _leaves(path, value)
        elif _is_risky(str(name), value, target) and not (isinstance(value, str) and value in named):
            yield path, value
        else:
            yield from _refused(path, value, allowed, named)


def _is_risky(name: str, value: Any, target: Any) -> bool:
    """Whether a value may say what runs, where the mapping around it does not."""
    if name == "path":  # of a file where data is read; else of a function
        return not (isinstance(target, str) and target.startswith("ada_lightning.data.") and _is_own(target))
    return name in ("_args_", "defaults") or (name in HARMLESS and value != HARMLESS[name])


def _is_own(target: str) -> bool:
    """Whether a name is that of a class in the module that defines it: what a module imports is not its own."""
    module, _, name = target.rpartition(".")
    if not any(f"{module}.".startswith(f"{package}.") for package in OWN_PACKAGES):
        return False
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(found, type) and f"{found.__module__}.".startswith(tuple(f"{each}." for each in OWN_PACKAGES))


def _leaves(key: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _leaves(f"{key}.{name}", value)
    elif node is not None:
        yield key, node
