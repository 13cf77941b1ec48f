"""The command line's options and experiments, made from the classes and recipes that are marked as such.

Files of ``conf/``, and of one's own in ``--config-dir``, come first; what they do not have is looked up here. All of it
is kept in a cache, so that a command line is read without importing torch, and made anew when a module changes.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

import ada_lightning

PACKAGE = Path(ada_lightning.__file__).parent
MARKS = ("from ada_lightning.core.options import", "from ada_lightning.methods.recipe import")
"""What stands in a module that has options or recipes."""
PROVIDER = "ada_lightning"


@dataclass(frozen=True, slots=True)
class Entry:
    """An option or an experiment, as Hydra composes it."""

    node: dict[str, Any]
    package: str | None
    text: str


Catalog = dict[str, dict[str, Entry]]
"""Entries by group and name; a group within another has a slash, experiments are the group ``experiment``."""


class GeneratedSource(ConfigSource):
    """What Hydra finds behind ``ada://``: all of the catalog, as if it were a folder of files."""

    @staticmethod
    def scheme() -> str:
        """Name of the kind of place."""
        return "ada"

    def available(self) -> bool:
        """Always."""
        return True

    def load_config(self, config_path: str) -> ConfigResult:
        """Return an option or an experiment by its path."""
        entry = self._entry(config_path)
        if entry is None:
            raise ConfigLoadError(f"there is no {config_path}")
        return ConfigResult(
            provider=PROVIDER,
            path=self.full_path(),
            config=OmegaConf.create(entry.node),
            header={"package": entry.package},
        )

    def is_group(self, config_path: str) -> bool:
        """Whether a path leads to options."""
        return config_path in ("", "/") or any(f"{name}/".startswith(f"{config_path.strip('/')}/") for name in _paths())

    def is_config(self, config_path: str) -> bool:
        """Whether a path leads to an option or an experiment."""
        return self._entry(config_path) is not None

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Names of the groups, the options or both directly below a path."""
        above = f"{config_path.strip('/')}/".removeprefix("/")
        below = [name.removeprefix(above) for name in _paths() if name.startswith(above)]
        options = {name for name in below if "/" not in name and self.is_config(above + name)}
        groups = {name.partition("/")[0] for name in below if "/" in name}
        kept = {ObjectType.CONFIG: options, ObjectType.GROUP: groups}
        return sorted(options | groups if results_filter is None else kept[results_filter])

    @staticmethod
    def _entry(config_path: str) -> Entry | None:
        return _paths().get(config_path.strip("/").removesuffix(".yaml"))


class GeneratedSearchPath(SearchPathPlugin):
    """Has Hydra look there last, behind every folder of files."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the place; named as Hydra's own last one, in front of which it puts the folder of ``--config-dir``."""
        search_path.append(provider="schema", path="ada://")


def register() -> None:
    """Have Hydra find all of them. Safe to call twice."""
    for plugin in (GeneratedSource, GeneratedSearchPath):
        Plugins.instance().register(plugin)


@cache
def _paths() -> dict[str, Entry]:
    """Every entry by its path."""
    return {f"{group}/{name}": entry for group, entries in catalog().items() for name, entry in entries.items()}


def names(config_dir: Path, group: str) -> list[str]:
    """Names of the options of a group, files and those made from classes; without those of groups within it."""
    files = {path.stem for path in (config_dir / group).glob("*.yaml")}
    made = {name for name in catalog().get(group, {}) if "/" not in name}
    return sorted(name for name in files | made if not name.startswith("_"))


def groups_within(config_dir: Path, group: str) -> list[str]:
    """Names of the groups within a group, at any depth."""
    folders = {path.parent.relative_to(config_dir).as_posix() for path in (config_dir / group).rglob("*/*.yaml")}
    made = {each for each in catalog() if each.startswith(f"{group}/")}
    return sorted(folders | made)


def experiments(config_dir: Path) -> list[str]:
    """Names of all experiments, those within a folder with its name."""
    folder = config_dir / "experiment"
    files = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml")}
    return sorted(files | catalog()["experiment"].keys())


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


def _made() -> Catalog:
    """Import what is marked, and collect it."""
    from ada_lightning.core.options import OPTIONS
    from ada_lightning.methods.recipe import RECIPES

    for module in marked_modules():
        import_module(module)
    found: Catalog = {
        group: {name: Entry(each.node, each.package, each.text) for name, each in options.items()}
        for group, options in OPTIONS.items()
        if options
    }
    found["experiment"] = {name: Entry(each.node, "_global_", each.text) for name, each in RECIPES.items()}
    return found


def marked_modules() -> Iterator[str]:
    """Names of the modules that have options or recipes."""
    for path in sorted(PACKAGE.rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        if any(line.startswith(MARKS) for line in lines):
            yield ".".join(["ada_lightning", *path.relative_to(PACKAGE).with_suffix("").parts])


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
