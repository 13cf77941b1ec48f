"""The registry: what can be chosen by a word, and the class behind each word.

A class becomes an option where it is defined::

    @option("sampler", "uniform")
    class UniformSampler(Sampler): ...

Its settings are the parameters of its constructor that have a default, documented where the class documents them. From
this the command line's options, ``--help`` and ``ada describe`` are made (``config/generated.py``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import reduce
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

PUBLIC_PACKAGES = (
    "ada_lightning.methods.advantages",
    "ada_lightning.methods.curriculum",
    "ada_lightning.methods.estimators",
    "ada_lightning.methods.gradient_norms",
    "ada_lightning.methods.hints",
    "ada_lightning.methods.objectives",
    "ada_lightning.methods.refill",
    "ada_lightning.methods.sampling",
    "ada_lightning.methods.selection",
    "ada_lightning.training.losses",
    "ada_lightning.training.token_masks",
    "ada_lightning.rollout.engines.weight_transfer",
)
"""Packages whose classes are named by the package in stored configurations, so that a module may move within it."""


@dataclass(frozen=True)
class Use:
    """A class with settings, not made yet: every run, and every core, makes parts of its own."""

    kind: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)


def use(kind: Callable[P, T], /, *args: P.args, **settings: P.kwargs) -> T:
    """Name a class and the settings in which it is to differ from its defaults.

    Returns:
        A :class:`Use`. It is typed as what will be made of it, as ``dataclasses.field`` is, so that mypy checks the
        settings, and where it stands.

    Example:
        >>> from ada_lightning.methods.sampling import BalanceSampler
        >>> use(BalanceSampler, k_pos=3).arguments
        {'k_pos': 3}
    """
    if args:
        raise TypeError("settings have names: use(kind, name=value)")
    later: Any = Use(kind, settings)
    return later


def ref(key: str) -> Any:
    """Return a reference to another setting, for where its type is asked for.

    Example:
        >>> ref("optimizer.lr")
        '${optimizer.lr}'
    """
    return f"${{{key}}}"


@dataclass(frozen=True, slots=True)
class Option:
    """What a word of the command line stands for."""

    group: str
    """As in ``sampler=...``; one within another has a slash: ``loss/reduction``."""
    name: str
    values: Mapping[str, Any]
    """Plain: ``_target_`` and settings, as YAML has them. ``${...}`` refers to another setting of the run."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """Option by group within this one, for the settings that are chosen by a word themselves."""
    text: str = ""
    """What it is, where it is from, what goes with it."""
    package: str | None = None
    """Where its values go; None: below the name of its group."""
    defaults: Sequence[Any] = ()
    """Further entries of Hydra's defaults list, in front."""
    kind: Any = None
    """The class; None where there is none."""

    @property
    def node(self) -> dict[str, Any]:
        """As a file of Hydra's has it, its defaults list included."""
        listed = [*self.defaults, *({group: name} for group, name in self.choices.items())]
        return ({"defaults": [*listed, "_self_"]} if listed else {}) | dict(self.values)


OPTIONS: dict[str, dict[str, Option]] = {}
"""Every option of the modules imported so far, by group and name."""


def option(
    group: str,
    name: str,
    *,
    text: str | None = None,
    choices: Mapping[str, str] | None = None,
    hidden: Sequence[str] = (),
    below: str = "",
    beside: Mapping[str, Any] | None = None,
    package: str | None = None,
    defaults: Sequence[Any] = (),
    **values: Any,
) -> Callable[[type[T]], type[T]]:
    """Make a class an option.

    Args:
        group: as in ``sampler=...``.
        name: the word.
        text: what it is; the first paragraph of the class's docstring unless given.
        choices: settings that are chosen by a word, from the group ``<group>/<setting>``.
        hidden: settings that have a default and are no part of the option.
        below: key within the group at which the part stands, as a reward stands in its pool.
        beside: settings that stand next to that key.
        package: where its values go, if not below the name of its group; ``_global_`` is the top.
        defaults: further entries of Hydra's defaults list.
        **values: settings whose value is not the constructor's default, above all references to other settings:
            ``group_size="${sampler.group_size}"``. A setting called ``seed`` refers to the run's by itself. A part
            within the part is given by :func:`use`.

    Raises:
        ValueError: another class has the name, or no file can hold a default.
    """

    def register(kind: type[T]) -> type[T]:
        shown = {key: plain(value, f"{group}={name}: {key}") for key, value in values.items()}
        node = _settings(kind, {*hidden, *(choices or {})} - shown.keys(), shown)
        for key in (below, group.split("/")[0] if package == "_global_" else ""):
            node = {key: node} if key else node
        node |= beside or {}
        said = first_paragraph(kind) if text is None else text
        add(Option(group, name, node, choices or {}, said, package, defaults, kind))
        return kind

    return register


def preset(
    group: str,
    name: str,
    base: str,
    *,
    text: str,
    choices: Mapping[str, str] | None = None,
    **values: Any,
) -> None:
    """Make a further option of one that is registered: the same class with other settings.

    Args:
        group: of both.
        name: the word.
        base: the option it is made of.
        text: what it is.
        choices: those that differ from the base's.
        **values: settings that differ from the base's.

    Raises:
        ValueError: another class has the name.
        KeyError: there is no such base, or it has not one of the settings.
    """
    of = OPTIONS[group][base]
    if unknown := values.keys() - of.values.keys():
        raise KeyError(f"{group}={base} has no {', '.join(sorted(unknown))}")
    changed = {key: plain(value, f"{group}={name}: {key}") for key, value in values.items()}
    chosen = dict(of.choices) | dict(choices or {})
    add(replace(of, name=name, values=dict(of.values) | changed, choices=chosen, text=text))


def option_of(kind: Any, group: str) -> Option:
    """Return the first option of a group that has a class.

    Raises:
        LookupError: the class is no option of the group, or ``kind`` is no class.
    """
    if not isinstance(kind, type):
        raise LookupError(
            f"{group}={kind!r} is not a {group}: give a class, use(class, setting=value) or the name of an option"
        )
    every = [option for options in OPTIONS.values() for option in options.values() if option.kind is kind]
    if found := [option for option in every if option.group == group]:
        return found[0]
    name = f"{kind.__module__}.{kind.__qualname__}"
    if every:
        raise LookupError(f"{name} is no {group}: it is {every[0].group}={every[0].name}")
    raise LookupError(f"{name} is no option: write @option({group!r}, name) above it")


def add(new: Option) -> None:
    """Register an option.

    Raises:
        ValueError: another class has its name.
    """
    known = OPTIONS.setdefault(new.group, {})
    if new.name in known and _target(known[new.name]) != _target(new):
        raise ValueError(
            f"{new.group}={new.name} is {_target(known[new.name])} already, so it cannot be {_target(new)}"
        )
    known[new.name] = new


def target_of(kind: Any) -> str:
    """Return the dotted name by which stored configurations name a class.

    Example:
        >>> from ada_lightning.methods.sampling.uniform import UniformSampler
        >>> target_of(UniformSampler)
        'ada_lightning.methods.sampling.UniformSampler'
    """
    package = next((name for name in PUBLIC_PACKAGES if f"{kind.__module__}.".startswith(f"{name}.")), kind.__module__)
    return f"{package}.{kind.__qualname__}"


def locate(target: str) -> Any:
    """Return what a ``_target_`` names.

    Raises:
        ImportError, AttributeError: the name does not exist.
    """
    parts = target.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:length])
        try:
            return reduce(getattr, parts[length:], import_module(module))
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # the module is there; something it needs is not
    raise ModuleNotFoundError(f"no module named {'.'.join(parts[:-1]) or target!r}")


def first_paragraph(kind: Any) -> str:
    """First paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def plain(value: Any, what: str = "the setting") -> Any:
    """Return a setting as YAML has it; a :class:`Use` becomes a mapping with ``_target_`` and all settings.

    Args:
        value: a number, a text, None, an enum, a list or tuple, a mapping, or a :class:`Use`. Numbers and arrays of an
            array library become plain numbers and lists.
        what: names the setting in the message.

    Raises:
        ValueError: no file can hold the value.
    """
    if isinstance(value, Use):
        given = {name: plain(each, f"{what}.{name}") for name, each in value.arguments.items()}
        kind: Any = value.kind  # a class
        return _settings(kind, set(), given)
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "tolist") and not isinstance(value, type):
        value = value.tolist()  # a plain number where the array has no axis
    if isinstance(value, list | tuple):
        return [plain(each, what) for each in value]
    if isinstance(value, Mapping):
        return {str(name): plain(each, f"{what}.{name}") for name, each in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(
        f"{what} is of type {type(value).__name__}, which a file cannot hold: give a number, a text, a list, a "
        "mapping, or a part by use(class, setting=value)"
    )


def _target(found: Option) -> str:
    return target_of(found.kind) if found.kind is not None else str(found.values.get("_target_", found.name))


def _settings(kind: type, hidden: set[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a class that have a value: given, or the default of the constructor."""
    factories = {}
    if is_dataclass(kind):
        factories = {each.name: each.default_factory for each in fields(kind) if each.default_factory is not MISSING}
    found: dict[str, Any] = {"_target_": target_of(kind)}
    parameters = inspect.signature(kind).parameters
    for name, parameter in parameters.items():
        if name in given:
            found[name] = given[name]
        elif name in hidden or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        elif name == "seed":
            found[name] = "${seed}"
        elif name in factories:
            found[name] = plain(factories[name](), f"{kind.__name__}.{name}")
        elif parameter.default is not parameter.empty:
            found[name] = plain(parameter.default, f"{kind.__name__}.{name}")
    return found | {name: value for name, value in given.items() if name not in found}
