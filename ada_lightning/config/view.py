"""A composed configuration whose light parts are made once; a part that cannot be made gives a message."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import (
    InterpolationKeyError,
    InterpolationToMissingValueError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from ada_lightning.config.problems import component_message, origin
from ada_lightning.methods.view import MethodView, MissingError, UnresolvedError


class ConfigView(MethodView):
    """What rules are asked about: values, classes and parts of a composed configuration, each by its dotted key."""

    cfg: DictConfig

    @cached_property
    def plain(self) -> Mapping[str, Any]:
        """All of it as it is written, with interpolations unresolved."""
        plain: Any = OmegaConf.to_container(self.cfg, resolve=False)
        return plain

    def read(self, key: str) -> Any:
        """Value at a key, interpolations resolved; None where there is none."""
        try:
            return OmegaConf.select(self.cfg, key, throw_on_missing=True)
        except (MissingMandatoryValue, InterpolationToMissingValueError) as error:
            raise MissingError(str(error)) from error
        except OmegaConfBaseException as error:
            reason = str(error).splitlines()[0]
            if isinstance(error, InterpolationKeyError):
                reason = f"it takes its value from a key that the chosen parts do not have ({reason})"
            raise UnresolvedError(reason) from error

    @property
    def is_cpu(self) -> bool:
        """Whether the trainer is meant for a CPU. Neither this nor :attr:`is_gpu` where there is no trainer."""
        return bool(self.value("trainer.accelerator") == "cpu")

    @property
    def is_gpu(self) -> bool:
        """Whether the trainer is meant for a GPU."""
        return self.value("trainer.accelerator") in ("cuda", "gpu")

    def errors(self, key: str, completed: Collection[str] = ()) -> list[str]:
        """Say why a part cannot be made, or what its ``check()`` raises if it has one.

        Args:
            key: of a component whose constructor checks its arguments and does nothing else.
            completed: arguments that the program fills in later; empty stand-ins are given for them.

        Returns:
            One message, or none where the node is in order or no component.
        """
        message = self._tried_with(key, completed)[1]
        return [message] if message else []

    def overruled(self, key: str, completed: Collection[str]) -> list[str]:
        """Say which arguments of a component are set although the program fills them in."""
        names = sorted(set(self.names(key)) & set(completed))
        return [f"{key}.{name} is filled in by the program and cannot be set; leave it out" for name in names]

    def make(self, key: str) -> tuple[Any, str]:
        """Make the part at a key, and say what is wrong with it."""
        return self._made(key, ())

    def _tried_with(self, key: str, completed: Collection[str]) -> tuple[Any, str]:
        if key not in self._tried:
            self._tried[key] = self._made(key, completed)
        return self._tried[key]

    def _made(self, key: str, completed: Collection[str]) -> tuple[Any, str]:
        node, component = self.value(key), None
        if not isinstance(node, DictConfig) or "_target_" not in node:
            return None, ""
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
                found = self._dotted(place[1]) if place else key
                return component, self._with_typed_keys(component_message(found, cause))
        except (ValueError, TypeError, OSError, ImportError) as error:
            return component, self._with_typed_keys(component_message(key, error))
        return component, ""

    def _dotted(self, place: str) -> str:
        """Put the dot before the number of a list's element that Hydra leaves out."""
        of_list = re.sub(r"\d+$", "", place)
        return f"{of_list}.{place[len(of_list) :]}" if isinstance(self.value(of_list), ListConfig) else place

    def _with_typed_keys(self, message: str) -> str:
        """Replace keys whose value is that of another one by that one: a constructor knows its own arguments only."""
        return re.sub(r"\b[a-z_]+(?:\.\w+)+", lambda key: origin(self.plain, key[0]), message)


Rule = Callable[[ConfigView], Iterator[str]]
"""What does not go together: yields a message (what is wrong, the values, the way out), or nothing."""
