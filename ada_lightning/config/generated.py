"""The command line's options and experiments, where Hydra looks for them.

Files of ``conf/``, and of one's own in ``--config-dir``, come first; what they do not have is looked up in the catalog
of classes and recipes (``methods/catalog.py``).
"""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from ada_lightning.methods.catalog import Entry, entries

PROVIDER = "ada_lightning"


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
        return config_path in ("", "/") or any(
            f"{name}/".startswith(f"{config_path.strip('/')}/") for name in entries()
        )

    def is_config(self, config_path: str) -> bool:
        """Whether a path leads to an option or an experiment."""
        return self._entry(config_path) is not None

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Names of the groups, the options or both directly below a path."""
        above = f"{config_path.strip('/')}/".removeprefix("/")
        below = [name.removeprefix(above) for name in entries() if name.startswith(above)]
        options = {name for name in below if "/" not in name and self.is_config(above + name)}
        groups = {name.partition("/")[0] for name in below if "/" in name}
        kept = {ObjectType.CONFIG: options, ObjectType.GROUP: groups}
        return sorted(options | groups if results_filter is None else kept[results_filter])

    @staticmethod
    def _entry(config_path: str) -> Entry | None:
        return entries().get(config_path.strip("/").removesuffix(".yaml"))


class GeneratedSearchPath(SearchPathPlugin):
    """Has Hydra look there last, behind every folder of files."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the place; named as Hydra's own last one, in front of which it puts the folder of ``--config-dir``."""
        search_path.append(provider="schema", path="ada://")


def register() -> None:
    """Have Hydra find all of them. Safe to call twice."""
    for plugin in (GeneratedSource, GeneratedSearchPath):
        Plugins.instance().register(plugin)
