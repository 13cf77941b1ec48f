"""A composed configuration whose light parts are made once; what cannot be made is a message, no exception."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ada_lightning.config.keys import locate
from ada_lightning.config.problems import component_message, origin
from ada_lightning.core.protocols import Part, Trait

ADVANTAGES = ("advantage", "advantage.advantage")
"""The advantage, and the one that whitening is given."""
SELECTIONS = ("selection", "selection.selection")
"""The selection, and the one that is asked for what is left where whole pools are dropped first."""


class Setup:
    """What rules are asked about: values, classes and parts of a composed configuration, each by its dotted key."""

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg = cfg
        self._tried: dict[str, tuple[Any, str]] = {}

    def value(self, key: str) -> Any:
        """Value at a key; None where there is none, or where its interpolation, reported by itself, leads nowhere."""
        try:
            return OmegaConf.select(self.cfg, key)
        except OmegaConfBaseException:
            return None

    def number(self, key: str) -> int | float | None:
        """Value at a key; None where there is none or it is no number."""
        value = self.value(key)
        return value if isinstance(value, int | float) else None

    @property
    def is_cpu(self) -> bool:
        """Whether the trainer is meant for a CPU. Neither this nor :attr:`is_gpu` where there is no trainer."""
        return bool(self.value("trainer.accelerator") == "cpu")

    @property
    def is_gpu(self) -> bool:
        """Whether the trainer is meant for a GPU."""
        return self.value("trainer.accelerator") in ("cuda", "gpu")

    def names(self, key: str) -> list[str]:
        """Keys of a node; none where there is no node."""
        node = self.value(key)
        return [str(name) for name in node] if isinstance(node, DictConfig) else []

    def kind(self, key: str) -> type:
        """Class of a component; ``object`` where there is none or it cannot be loaded, which is reported by itself."""
        target = self.value(f"{key}._target_")
        try:
            found = locate(target) if isinstance(target, str) else object
        except (ImportError, AttributeError):
            return object
        return found if isinstance(found, type) else object

    def is_a(self, key: str, *kinds: type) -> bool:
        """Whether the component at a key is of one of these classes."""
        return issubclass(self.kind(key), kinds)

    def has(self, key: str, *traits: Trait) -> bool:
        """Whether the component at a key is a part of the method whose class has one of these traits."""
        kind = self.kind(key)
        return issubclass(kind, Part) and not kind.traits.isdisjoint(traits)

    def name(self, key: str) -> str:
        """Name of the class of a component."""
        return self.kind(key).__name__

    def part(self, key: str) -> Any:
        """Light part at a key; None where nothing is chosen, or where making it failed, which is reported by itself."""
        return self._try(key)[0]

    def errors(self, key: str, completed: Collection[str] = ()) -> list[str]:
        """Say why a part cannot be made, or what its ``check()`` raises if it has one.

        Args:
            key: of a component whose constructor checks its arguments and does nothing else.
            completed: arguments that the program fills in later; empty stand-ins are given for them.

        Returns:
            One message, or none where the node is in order or no component.
        """
        message = self._try(key, completed)[1]
        return [message] if message else []

    def overruled(self, key: str, completed: Collection[str]) -> list[str]:
        """Say which arguments of a component are set although the program fills them in."""
        names = sorted(set(self.names(key)) & set(completed))
        return [f"{key}.{name} is filled in by the program and cannot be set; leave it out" for name in names]

    def _try(self, key: str, completed: Collection[str] = ()) -> tuple[Any, str]:
        if key not in self._tried:
            node = self.value(key)
            is_component = isinstance(node, DictConfig) and "_target_" in node
            self._tried[key] = self._made(key, node, completed) if is_component else (None, "")
        return self._tried[key]

    def _made(self, key: str, node: DictConfig, completed: Collection[str]) -> tuple[Any, str]:
        component = None
        try:
            component = instantiate(node, _partial_=False, **dict.fromkeys(completed, ()))
            if callable(check := getattr(component, "check", None)):
                check()
        except OmegaConfBaseException:  # a value that is missing or cannot be resolved is reported by itself
            pass
        except InstantiationException as error:
            cause = error.__cause__ or error
            place = re.search(r"^full_key: ([\w.]+)$", str(error), re.MULTILINE)  # of the part within it that failed
            if not isinstance(cause, OmegaConfBaseException):
                return component, self._with_typed_keys(component_message(place[1] if place else key, cause))
        except (ValueError, TypeError, OSError, ImportError) as error:
            return component, self._with_typed_keys(component_message(key, error))
        return component, ""

    def _with_typed_keys(self, message: str) -> str:
        """Replace keys whose value is that of another one by that one: a constructor knows its own arguments only."""
        plain: Any = OmegaConf.to_container(self.cfg, resolve=False)
        return re.sub(r"\b[a-z_]+(?:\.\w+)+", lambda key: origin(plain, key[0]), message)


Rule = Callable[[Setup], Iterator[str]]
"""What does not go together: yields a message (what is wrong, the values, the way out), or nothing."""
