"""A method as a value: which parts it has, and the settings in which they differ from their defaults.

Read by ``+experiment=...`` on the command line, ``Core(RECIPE, ...)`` in a loop of one's own, ``ada describe NAME``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias, TypeVar, Union

from ada_lightning.core.options import Use, option_of, plain
from ada_lightning.core.protocols import (
    Advantage,
    Curriculum,
    FollowUp,
    Objective,
    PassRateEstimator,
    Refill,
    Sampler,
    Selection,
)

T = TypeVar("T")
Choice: TypeAlias = Union[T, type[T], str]  # noqa: UP007 - `T | str` is no alias at runtime
"""A class with settings, by :func:`~ada_lightning.core.options.use`; a class with its defaults; or an option's word."""
PARTS = ("estimator", "curriculum", "sampler", "selection", "refill", "hints", "advantage", "objective")
"""Groups of the parts that make a method, in the order in which one may refer to another."""


@dataclass(frozen=True, slots=True)
class Card:
    """What ``docs/methods.md`` says of a method: a row of one of its tables."""

    table: str
    """``responses`` (who gets how many), ``prompts`` (which), ``training`` (which responses train) or ``update``."""
    changes: str
    needs: str = "-"
    cost: str = "-"
    """Responses per prompt, or what else it takes."""
    fidelity: str = "ours"
    """``faithful``: what paper or authors' code do; ``after``: public detail is missing, or something else is done."""
    departs: str = "-"
    """Where it departs from its source."""
    also: Sequence[str] = ()
    """Further methods that the row is about."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What ``docs/methods_checked.md`` says of a method: which test holds its rule to what."""

    rule: str
    against: str
    """``brute force``, ``enumeration``, ``simulation``, ``their loop, rewritten``, ``by hand`` or ``nothing``."""
    test: str
    """As ``unit/folder/test_file.py::test_name``."""
    also: Sequence[str] = ()
    """Further methods that the row is about."""


DEFAULTS = {
    "estimator": "beta_history",
    "curriculum": "uniform",
    "sampler": "balance",
    "selection": "balanced",
    "refill": "none",
    "hints": "none",
    "advantage": "exact",
    "loss": "clipped",
}
"""Option by group for parts that a method does not name, as in ``conf/train.yaml``. A test compares the two."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A method. A part that is not given is the run's own; :data:`DEFAULTS` has what a run uses by default.

    Nothing is checked here. Whoever composes it, ``Core`` or the command line, refuses what cannot work.
    """

    name: str
    text: str
    """What it is and where it is from, in a few sentences."""
    estimator: Choice[PassRateEstimator] | None = None
    curriculum: Choice[Curriculum] | None = None
    sampler: Choice[Sampler] | None = None
    selection: Choice[Selection] | None = None
    refill: Choice[Refill] | None = None
    hints: Choice[FollowUp] | None = None
    advantage: Choice[Advantage] | None = None
    objective: Choice[Objective] | None = None
    loss: str | None = None
    """Word of a loss; its class loads torch."""
    reduction: str | None = None
    """Word of the loss's reduction; None is the loss's own."""
    token_masks: Sequence[str] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Words by further groups: ``{"reward": "overlong", "sampler/gradient_norm": "constant"}``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values by dotted key, of the method or of the run."""
    card: Card | None = None
    checked: Comparison | None = None
    builds_on: Sequence[str] = ()
    """Files of the configuration in front of it, such as ``/paper/base``."""

    def with_(self, **changes: Any) -> Recipe:
        """Return it changed: a field by its name, a setting by its dotted key, one of the sampler's by its bare name.

        Example:
            >>> from ada_lightning.methods.recipes import ADA_SEQ_BALANCE
            >>> ADA_SEQ_BALANCE.with_(k_pos=3, **{"estimator.memory": 0.9}).settings
            {'sampler.k_pos': 3, 'estimator.memory': 0.9}
        """
        own = {each.name for each in fields(self)}
        settings = dict(self.settings) | dict(changes.pop("settings", {}))
        options = dict(self.options) | dict(changes.pop("options", {}))
        for name in [name for name in changes if name not in own]:
            value = changes.pop(name)
            if "/" in name:
                options[name] = value
            else:
                settings[name if "." in name else f"sampler.{name}"] = value
        return replace(self, **changes, settings=settings, options=options)

    def words(self) -> dict[str, str]:
        """Option by group, of all that it chooses."""
        found = {group: self.word(group) for group in PARTS if getattr(self, group) is not None}
        found |= {"loss": self.loss} if self.loss else {}
        found |= {"loss/reduction": self.reduction} if self.reduction else {}
        return found | dict(self.options)

    def word(self, group: str) -> str:
        """Option of one of its parts."""
        chosen = getattr(self, group)
        kind = chosen.kind if isinstance(chosen, Use) else chosen
        return chosen if isinstance(chosen, str) else option_of(kind, group).name

    def values(self) -> dict[str, Any]:
        """Every setting in which it differs from the options that it chooses, nested as YAML has it."""
        found: dict[str, Any] = {}
        for group in PARTS:
            if isinstance(chosen := getattr(self, group), Use):
                for name, value in chosen.arguments.items():
                    put(found, f"{group}.{name}", plain(value, f"{self.name}: {group}.{name}"))
        for key, value in self.settings.items():
            put(found, key, plain(value, f"{self.name}: {key}"))
        return found

    @property
    def node(self) -> dict[str, Any]:
        """As a file of Hydra's has it, at the top of the configuration."""
        chosen: dict[str, Any] = {f"override /{group}": word for group, word in self.words().items()}
        if self.token_masks is not None:
            chosen["override /token_masks"] = list(self.token_masks)
        listed = [*self.builds_on, *({group: word} for group, word in chosen.items()), "_self_"]
        return {"defaults": listed, "experiment_name": self.name.replace("/", "_")} | self.values()


RECIPES: dict[str, Recipe] = {}
"""Every recipe made known by the modules imported so far, by name."""


def known(new: Recipe) -> Recipe:
    """Make a recipe known by its name, and return it.

    Raises:
        ValueError: another method has the name.
    """
    if RECIPES.setdefault(new.name, new) != new:
        raise ValueError(f"there is a method {new.name} already")
    return new


def put(node: dict[str, Any], key: str, value: Any) -> None:
    """Set a value by its dotted key; a mapping is laid over one that is there.

    Raises:
        ValueError: what should have the key within it is a value.
    """
    *above, last = key.split(".")
    for name in above:
        within = node.setdefault(name, {})
        if not isinstance(within, dict):
            raise ValueError(f"there is no {key}: {name} is {within!r} and has no keys")
        node = within
    if isinstance(value, Mapping) and isinstance(node.get(last), dict) and "_target_" not in value:
        for name, each in value.items():
            put(node[last], str(name), each)
    else:
        node[last] = value
