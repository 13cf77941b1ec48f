"""In a process, the project's configuration is composed once for each command, and so is what they share.

Hydra takes a tenth of a second to compose it. It parses forty small files with PyYAML, which is Python, and merges
them. What is kept is pickled: reading that is many times as fast as a deep copy.
"""

from __future__ import annotations

import pickle
from functools import lru_cache
from pathlib import Path

import omegaconf.base
from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import OmegaConf

from ada_lightning.config import choices
from ada_lightning.config.generated import GeneratedSource


def compose_once():
    """From now on; returns what ends it."""
    loader = ConfigLoaderImpl
    changes = [
        (omegaconf.base, "parse", lru_cache(4096)(omegaconf.base.parse)),  # of interpolations, which makes trees
        (OmegaConf, "load", staticmethod(_parse_once(OmegaConf.load))),
        (defaults_list, "_create_interpolation_map", _where_asked(defaults_list._create_interpolation_map)),
        (choices, "describe_choices", lru_cache(choices.describe_choices)),  # of the help, which is composed too
        (GeneratedSource, "load_config", _load_entry_once(GeneratedSource.load_config)),
        (loader, "load_configuration", _load_once(loader.load_configuration)),
        (loader, "_compose_config_from_defaults_list", _merge_once(loader._compose_config_from_defaults_list)),
    ]
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in changes]
    for owner, name, changed in changes:
        setattr(owner, name, changed)

    def undo():
        for owner, name, value in before:
            setattr(owner, name, value)

    return undo


def _parse_once(load):
    """A file is kept by its text: one that changes is parsed again."""
    parsed = {}

    def load_once(file_):
        if hasattr(file_, "read"):
            text = file_.read()
            file_.seek(0)
        else:
            text = Path(file_).read_text(encoding="utf-8")
        return _kept(parsed, text, lambda: load(file_))

    return load_once


def _load_entry_once(load):
    """An entry is kept by what it has; one without a node is a file that is read anew."""
    loaded = {}

    def load_once(self, config_path):
        entry = self._entry(config_path)
        key = config_path, self.path, repr(entry)
        return _kept(loaded if entry and entry.node is not None else None, key, lambda: load(self, config_path))

    return load_once


def _where_asked(create_interpolation_map):
    """Each list of defaults gets a map of all choices so far, though hardly any refers to one."""

    def create_where_asked(overrides, defaults, self_added):
        is_asked = any(default.is_interpolation() for default in defaults if not default.is_self())
        return create_interpolation_map(overrides, defaults, self_added) if is_asked else None

    return create_where_asked


def _load_once(load):
    """A whole command line."""
    loaded = {}

    def load_once(self, *args, **kwargs):
        key = _place(self), repr((args, kwargs))
        return _kept(key[0] and loaded, key, lambda: load(self, *args, **kwargs))

    return load_once


def _merge_once(merge):
    """Files of the same choices, before values of the command line are laid over them."""
    merged = {}

    def merge_once(self, defaults, repo):
        key = _place(repo), repr(defaults)
        return _kept(key[0] and merged, key, lambda: merge(self, defaults, repo))

    return merge_once


def _place(repo):
    """Where the files lie; None where some are of a test's own making, which may change."""
    sources = [source.full_path() for source in repo.get_sources()]
    files = [source for source in sources if source.startswith("file:")]
    return repr(sources) if "ada://conf" in sources and not files else None


def _kept(found, key, make):
    if found is None:
        return make()
    if key not in found:
        found[key] = pickle.dumps(make())
    return pickle.loads(found[key])
