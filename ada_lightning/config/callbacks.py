"""Callbacks and loggers that come complete out of the configuration: their constructors check their arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from omegaconf import DictConfig

from ada_lightning.config.problems import component_errors, value_at

GROUPS = ("callbacks", "logger")
OWN_PACKAGES = ("callbacks.", "ada_lightning.")
"""Where constructors only note what they are given. Others' may open connections or files, so they are not tried."""


def callback_errors(cfg: DictConfig, checked: Collection[str], wrong_keys: Collection[str]) -> Iterator[str]:
    """Try every callback and logger of this project.

    Args:
        cfg: the composed configuration.
        checked: dotted keys of components that are tried elsewhere.
        wrong_keys: dotted keys of values that are wrong by themselves; parts with such are left alone.

    Yields:
        One message per problem.
    """
    for key in _own_parts(cfg):
        if key not in checked and not any(wrong.startswith(f"{key}.") for wrong in wrong_keys):
            yield from component_errors(cfg, key)


def _own_parts(cfg: DictConfig) -> Iterator[str]:
    for group in GROUPS:
        node = value_at(cfg, group)
        for name in map(str, node) if isinstance(node, DictConfig) else ():
            target = value_at(cfg, f"{group}.{name}._target_")
            if isinstance(target, str) and target.startswith(OWN_PACKAGES):
                yield f"{group}.{name}"
