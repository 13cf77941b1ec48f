"""Every option and every experiment there is: what the classes and recipes of the package say of themselves.

Kept in a cache, so that a command line is read without importing torch, and made anew when a module changes.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

import ada_lightning
from ada_lightning.core.options import OPTIONS
from ada_lightning.methods.recipe import RECIPES

PACKAGE = Path(ada_lightning.__file__).parent
MARKS = ("from ada_lightning.core.options import", "from ada_lightning.methods.recipe import")
"""What stands in a module that has options or recipes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An option or an experiment, as Hydra composes it."""

    node: dict[str, Any]
    package: str | None
    text: str


Catalog = dict[str, dict[str, Entry]]
"""Entries by group and name; a group within another has a slash, experiments are the group ``experiment``."""
_CATALOG: Catalog = {}


def catalog() -> Catalog:
    """Return every option and experiment of the package, from the cache where nothing has changed since."""
    if not _CATALOG:
        file, state = _cache_file(), _state()
        if cached := _read(file, state):
            _CATALOG.update(cached)
        else:
            _CATALOG.update(_made())
            _write(file, state)
    return _CATALOG


@cache
def entries() -> Mapping[str, Entry]:
    """Return every entry by its path: ``sampler/balance``, ``experiment/paper/grpo``."""
    return {f"{group}/{name}": entry for group, found in catalog().items() for name, entry in found.items()}


def named_by(config_dir: Path, group: str, *keys: str) -> frozenset[str]:
    """Return what the options of a group, and of groups within it, name under some keys; ``_target_`` unless given."""
    wanted = keys or ("_target_",)
    pattern = rf"(?:{'|'.join(wanted)}): *([\w.]+)"
    files = (config_dir / group).rglob("*.yaml")
    nodes = [each.node for path, each in entries().items() if path.startswith(f"{group}/")]
    in_files = {name for file in files for name in re.findall(pattern, file.read_text("utf-8"))}
    return frozenset(in_files | {name for node in nodes for name in _values_of(node, wanted)})


def names(config_dir: Path, group: str) -> list[str]:
    """Names of the options of a group, files and those made from classes; without those of groups within it."""
    return [name for name in all_names(config_dir, group) if "/" not in name and not name.startswith("_")]


def groups_within(config_dir: Path, group: str) -> list[str]:
    """Names of the groups within a group, at any depth."""
    return sorted({f"{group}/{name}".rpartition("/")[0] for name in all_names(config_dir, group) if "/" in name})


def experiments(config_dir: Path) -> list[str]:
    """Names of all experiments, those within a folder with its name."""
    return all_names(config_dir, "experiment")


def all_names(config_dir: Path, group: str) -> list[str]:
    """Names of the options of a group, and of those of groups within it by their path below the group."""
    folder = config_dir / group
    files = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml")}
    made = {path.removeprefix(f"{group}/") for path in entries() if path.startswith(f"{group}/")}
    return sorted(files | made)


def add_own(folder: Path) -> list[str]:
    """Import the modules of a folder that have options or recipes, and add these.

    For the folder of ``--config-dir``, whose files name classes to run already. It becomes importable, so that stored
    configurations find the classes by the modules' names.

    Returns:
        Names of the modules.

    Raises:
        ImportError: a module has the name of another one that is imported already.
        ValueError, LookupError: an option or a recipe is wrong; the text says what.
    """
    own = [path for path in sorted(folder.glob("*.py")) if _is_marked(path)]
    if own and str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    for path in own:
        module = import_module(path.stem)
        if Path(str(module.__file__)).resolve() != path.resolve():
            raise ImportError(f"{path} has the name of another module, {module.__file__}; give the file another name")
    if own:
        for group, found in _collected().items():
            catalog().setdefault(group, {}).update(found)
        entries.cache_clear()
    return [path.stem for path in own]


def _values_of(node: Any, keys: Collection[str]) -> Iterator[str]:
    """Texts that stand under some keys, at any depth."""
    if isinstance(node, Mapping):
        yield from (value for key, value in node.items() if key in keys and isinstance(value, str))
        node = list(node.values())
    for value in node if isinstance(node, list) else ():
        yield from _values_of(value, keys)


def _made() -> Catalog:
    """Import what is marked, and collect it."""
    for module in marked_modules():
        import_module(module)
    return _collected()


def _collected() -> Catalog:
    """Options and recipes of all modules imported so far."""
    found: Catalog = {
        group: {name: Entry(each.node, each.package, each.text) for name, each in options.items()}
        for group, options in OPTIONS.items()
        if options
    }
    found["experiment"] = {
        name: Entry(each.node, "_global_", " ".join(each.text.split())) for name, each in RECIPES.items()
    }
    return found


def marked_modules() -> Iterator[str]:
    """Names of the modules that have options or recipes."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if _is_marked(path):
            yield ".".join(["ada_lightning", *path.relative_to(PACKAGE).with_suffix("").parts])


def _is_marked(path: Path) -> bool:
    return any(line.startswith(MARKS) for line in path.read_text(encoding="utf-8").splitlines())


def _state() -> str:
    """Digest of names, sizes and times of all modules."""
    found = blake2b(str(PACKAGE).encode(), digest_size=16)
    for folder, folders, files in os.walk(PACKAGE):
        folders.sort()
        for name in sorted(file for file in files if file.endswith(".py")):
            facts = os.stat(os.path.join(folder, name))
            found.update(f"{folder}/{name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return found.hexdigest()


def _cache_file() -> Path:
    root = os.environ.get("ADA_LIGHTNING_CACHE") or Path.home() / ".cache" / "ada_lightning"
    return Path(root) / f"options-{blake2b(str(PACKAGE).encode(), digest_size=6).hexdigest()}.json"


def _read(file: Path, state: str) -> Catalog | None:
    """Return what is cached; None where there is nothing, or nothing of today's."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["state"] != state:
            return None
        return {
            group: {name: Entry(*entry) for name, entry in each.items()} for group, each in stored["groups"].items()
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, state: str) -> None:
    """Keep the catalog, whole or not at all; where nothing can be written, the next start makes it again."""
    groups = {
        group: {name: [entry.node, entry.package, entry.text] for name, entry in each.items()}
        for group, each in _CATALOG.items()
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump({"state": state, "groups": groups}, stream)
        os.replace(name, file)
    except OSError:
        return
