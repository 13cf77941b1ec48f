"""Gives Hydra the options and experiments that are made from classes and recipes.

Files of ``conf/``, and of one's own in ``--config-dir``, come first; what they do not have is looked up in the catalog
of classes and recipes (``methods/catalog.py``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf
from yaml import YAMLError

import ada_lightning
from ada_lightning.methods.catalog import Entry, cached, entries, listed

CONFIG_DIR = next(folder for place in ada_lightning.__path__ if (folder := Path(place).resolve() / "conf").is_dir())
"""Where the configuration stands that ships: ``conf/``, at the top of a checkout, inside of an installed package."""

PROVIDER = "ada_lightning"


class GeneratedSource(ConfigSource):
    """What Hydra finds behind ``ada://``, the catalog, and behind ``ada://conf``, the files of ``conf/``, read once."""

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
            config=OmegaConf.create(entry.node) if entry.node is not None else _load(config_path),
            header={"package": entry.package},
        )

    def is_group(self, config_path: str) -> bool:
        """Whether a path leads to options."""
        return config_path in ("", "/") or any(
            f"{name}/".startswith(f"{config_path.strip('/')}/") for name in self._entries()
        )

    def is_config(self, config_path: str) -> bool:
        """Whether a path leads to an option or an experiment."""
        return self._entry(config_path) is not None

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Names of the groups, the options or both directly below a path."""
        above = f"{config_path.strip('/')}/".removeprefix("/")
        below = [name.removeprefix(above) for name in self._entries() if name.startswith(above)]
        options = {name for name in below if "/" not in name and self.is_config(above + name)}
        groups = {name.partition("/")[0] for name in below if "/" in name}
        kept = {ObjectType.CONFIG: options, ObjectType.GROUP: groups}
        return sorted(options | groups if results_filter is None else kept[results_filter])

    def _entry(self, config_path: str) -> Entry | None:
        return self._entries().get(config_path.strip("/").removesuffix(".yaml"))

    def _entries(self) -> Mapping[str, Entry]:
        return files() if self.path == "conf" else entries()


class GeneratedSearchPath(SearchPathPlugin):
    """Has Hydra look in the catalog behind every folder of files, and take the files of ``conf/`` from a cache."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the catalog, named as Hydra's own last place: it puts the folder of ``--config-dir`` in front of that."""
        for place in search_path.get_path():
            if str(place.path).removeprefix("file://") == str(CONFIG_DIR):
                place.path = "ada://conf"
        search_path.append(provider="schema", path="ada://")


@cache
def files() -> Mapping[str, Entry]:
    """Return the files of ``conf/`` by their path without ``.yaml``."""
    return cached("conf", CONFIG_DIR, ".yaml", _read)


def _load(config_path: str) -> Any:
    """Load a file again: one that has what JSON has not, or that is wrong, which concerns whoever asks for it."""
    file = CONFIG_DIR / f"{config_path.strip('/').removesuffix('.yaml')}.yaml"
    try:
        return OmegaConf.load(file)
    except (OSError, ValueError, YAMLError) as error:
        raise ConfigLoadError(f"{file}: {error}") from error


def _read() -> dict[str, Entry]:
    """Every file; without a node where the cache could not hold it."""
    found = {}
    for file in listed(CONFIG_DIR, ".yaml"):
        node: Any = None
        text = file.read_bytes().decode(errors="replace")
        with suppress(OSError, ValueError, TypeError, YAMLError):
            loaded = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
            node = loaded if json.loads(json.dumps(loaded)) == loaded else None
        package = re.search(r"^# *@package +(\S+)", text, re.MULTILINE)
        found[file.relative_to(CONFIG_DIR).with_suffix("").as_posix()] = Entry(node, package and package[1], "")
    return found


def register() -> None:
    """Have Hydra find all of them. Safe to call twice."""
    for plugin in (GeneratedSource, GeneratedSearchPath):
        Plugins.instance().register(plugin)


register()
