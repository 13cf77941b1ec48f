"""A method as the checks see it: its values, classes and parts, each by its dotted key.

There are two: of a composed configuration (``config/view.py``), and of a method in Python (:class:`PlainView`), which
needs neither Hydra nor OmegaConf.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from ada_lightning.core.options import locate
from ada_lightning.core.protocols import Part, Trait

ADVANTAGES = ("advantage", "advantage.advantage")
"""The advantage, and the one that whitening is given."""
SELECTIONS = ("selection", "selection.selection")
"""The selection, and the one that is asked for what is left where whole pools are dropped first."""
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?(?P<dots>\.*)(?P<key>[\w.]*)(?P<default>,null)?\}")

KeyPath = tuple[str | int, ...]
"""Names of keys, and indices of lists, from the top."""


class UnresolvedError(LookupError):
    """A value that refers to nothing. Its text says to what."""


class MissingError(UnresolvedError):
    """A value that nobody gave."""


class MethodView(ABC):
    """Values, classes and parts by their dotted keys."""

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self.cfg = cfg
        self._tried: dict[str, tuple[Any, str]] = {}

    @property
    @abstractmethod
    def plain(self) -> Mapping[str, Any]:
        """All of it as it is written, with references unresolved."""

    @abstractmethod
    def read(self, key: str) -> Any:
        """Value at a key, references resolved; None where there is none.

        Raises:
            UnresolvedError: it refers to nothing, or nobody gave it.
        """

    @abstractmethod
    def make(self, key: str) -> tuple[Any, str]:
        """Make the part at a key: the part, and what is wrong with it. Neither where there is none."""

    def value(self, key: str) -> Any:
        """Value at a key; None where there is none, or where its reference, reported by itself, leads nowhere."""
        try:
            return self.read(key)
        except UnresolvedError:
            return None

    def number(self, key: str) -> int | float | None:
        """Value at a key; None where there is none or it is no number."""
        value = self.value(key)
        return value if isinstance(value, int | float) else None

    def names(self, key: str) -> list[str]:
        """Keys of a node; none where there is no node."""
        node = self.value(key)
        return [str(name) for name in node] if isinstance(node, Mapping) else []

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
        return self._once(key)[0]

    def _once(self, key: str) -> tuple[Any, str]:
        if key not in self._tried:
            self._tried[key] = self.make(key)
        return self._tried[key]


class PlainView(MethodView):
    """Of nested mappings, as options and recipes give them."""

    @property
    def plain(self) -> Mapping[str, Any]:
        """The mappings themselves."""
        return self.cfg

    def read(self, key: str) -> Any:
        """Value at a key, references within it resolved."""
        try:
            return self._whole(tuple(key.split(".")))
        except KeyError:
            return None

    def make(self, key: str) -> tuple[Any, str]:
        """Make a part by its ``_target_``, and the parts within it."""
        try:
            node = self.read(key)
            return (_made(node), "") if isinstance(node, Mapping) and "_target_" in node else (None, "")
        except UnresolvedError:  # reported by itself
            return None, ""
        except ValueError as error:
            return None, f"{key}: {error}"
        except (TypeError, OSError, ImportError) as error:
            return None, f"{key}: {type(error).__name__}: {error}"

    def _whole(self, path: KeyPath) -> Any:
        """Value at a path, with everything below it."""
        node, place = self._at(path)
        if isinstance(node, Mapping):
            return {name: self._whole((*place, name)) for name in node}
        return [self._whole((*place, index)) for index in range(len(node))] if isinstance(node, list) else node

    def _at(self, path: KeyPath) -> tuple[Any, KeyPath]:
        """Value at a path and where it really stands, once references on the way are followed.

        Raises:
            KeyError: there is nothing.
            UnresolvedError: a reference on the way leads to nothing, or nobody gave the value.
        """
        node: Any = self.cfg
        place: KeyPath = ()
        for name in path:
            if name not in (range(len(node)) if isinstance(node, list) else node if isinstance(node, Mapping) else ()):
                raise KeyError(name)
            node, place = node[name], (*place, name)
            if isinstance(node, str) and (reference := _REFERENCE.fullmatch(node)):
                node, place = self._followed(reference, place)
            elif node == "???":
                raise MissingError(".".join(map(str, place)))
        return node, place

    def _followed(self, reference: re.Match[str], place: KeyPath) -> tuple[Any, KeyPath]:
        """What a reference means: a key from the top, or with dots before it from the node that it stands in."""
        num_up = len(reference["dots"])
        base = place[:-num_up] if num_up else ()
        try:
            return self._at((*base, *reference["key"].split(".")))
        except RecursionError:
            raise UnresolvedError("its value refers to itself") from None
        except KeyError:
            if reference["default"]:
                return None, place
            raise UnresolvedError(
                f"it takes its value from a key that the chosen parts do not have ({reference['key']})"
            ) from None


def _made(node: Any) -> Any:
    """Make what a node describes, and everything in it."""
    if isinstance(node, Mapping):
        arguments = {name: _made(value) for name, value in node.items() if name != "_target_"}
        return locate(node["_target_"])(**arguments) if "_target_" in node else arguments
    return [_made(each) for each in node] if isinstance(node, list) else node
