"""Checks the command line, so that a typing error gets a better answer than Hydra's "Could not override"."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import get_args_parser
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ada_lightning.config.keys import GROUPS_OF_COMPONENTS, WITHOUT_EFFECT, accepted_keys, elsewhere, unknown_key
from ada_lightning.core.checks import similar

VERSION_BASE = "1.3"
_LIST = "[...]"
"""Stands for the choice of a group whose default is a list."""


def override_errors(argv: Sequence[str], config_dir: str | Path, config_name: str) -> list[str]:
    """Say what is wrong with the ``key=value`` arguments of a Hydra program, for every job of a sweep.

    Values are not judged here: the components do that, once they are composed.

    Args:
        argv: command line without the program's name.
        config_dir: folder of the configuration.
        config_name: of the primary config, without ``.yaml``.

    Returns:
        One message per argument that names an option or a key that does not exist, each with the way out; a missing
        folder of ``--config-dir`` is told alone, since what else there is depends on it. Empty where Hydra can compose
        every job.
    """
    if flags := _unknown_flags(argv):
        return [_flag_error(flag) for flag in flags]
    arguments = get_args_parser().parse_args(list(argv))
    if arguments.config_dir and not Path(arguments.config_dir).is_dir():
        return [f"--config-dir {arguments.config_dir}: no such folder"]
    errors: list[str] = []
    try:
        with _loader(config_dir, arguments.config_dir) as loader:
            name = arguments.config_name or config_name
            overrides, errors = _parse(arguments.overrides, _bare_experiments(loader, name, arguments.overrides))
            swept = [override for override in overrides if override.is_sweep_override()]
            if not arguments.multirun:
                errors += [_sweep_error(override) for override in swept]
            else:
                errors += [message for override in swept if (message := _empty_sweep_error(loader, override))]
            if overrides or name != config_name:
                errors = errors or _override_errors(loader, name, overrides)
    except (HydraException, OmegaConfBaseException) as error:
        errors.append(_composition_error(str(error)))
    return errors


def options_first(argv: Sequence[str]) -> list[str]:
    """Put ``key=value`` arguments behind the options: argparse takes them only where they stand together.

    Example:
        >>> options_first(["+experiment=grpo", "-m", "seed=0,1"])
        ['-m', '+experiment=grpo', 'seed=0,1']
    """
    if _unknown_flags(argv):
        return list(argv)
    overrides = get_args_parser().parse_known_intermixed_args(list(argv))[0].overrides
    options = list(argv)
    for override in overrides:
        options.remove(override)
    return [*options, *overrides]


def folders_of_ones_own(argv: Sequence[str]) -> list[Path]:
    """Return the folder of ``--config-dir``, where the arguments can be read and there is such a folder."""
    if _unknown_flags(argv):
        return []
    named = get_args_parser().parse_args(list(argv)).config_dir
    return [Path(named)] if named and Path(named).is_dir() else []


def _sweep_error(override: Override) -> str:
    """Say what several values mean without ``-m``."""
    line = override.input_line or ""
    key, _, values = line.partition("=")
    return f"{line}: several values start a sweep of runs: add -m. If you mean one list: {key}=[{values}]"


def _empty_sweep_error(loader: ConfigLoader, override: Override) -> str:
    """Say where values that are to be swept are none: Hydra starts no job then, and calls it a success."""
    line, group = override.input_line, override.key_or_group
    value = override.value()
    if isinstance(value, Glob):
        options = _offered(loader, group)
        return "" if value.filter(options) else f"{line}: no option of {group} matches; options: {', '.join(options)}"
    is_empty = override.is_range_sweep() and next(override.sweep_iterator(), None) is None
    return f"{line}: no value is in this range, so no job would run; range(0,3) is 0, 1, 2" if is_empty else ""


def overrides_without_effect(overrides: Sequence[str], unused: Collection[str], program: str) -> list[str]:
    """Say which ``key=value`` arguments set something, at or below a dotted key, that a program does not read.

    Example:
        >>> overrides_without_effect(["data.num_minibatches=2", "seed=1"], ["data.num_minibatches"], "prepare.py")
        ['data.num_minibatches=2: prepare.py trains nothing, so data.num_minibatches has no effect; leave it out']
    """
    parsed, _ = _parse(overrides)
    return [
        f"{override.input_line}: {program} trains nothing, so {key} has no effect; leave it out"
        for override in parsed
        for key in unused
        if f"{override.key_or_group.replace('/', '.')}.".startswith(f"{key}.")
    ]


def sweep_jobs(argv: Sequence[str], config_dir: str | Path, config_name: str) -> list[tuple[list[str], DictConfig]]:
    """Compose every job that Hydra's own sweeper would start, in its order.

    Arguments are those of :func:`override_errors`, which found nothing wrong.

    Returns:
        Overrides and configuration of each job. Empty without ``-m``, for another sweeper, which chooses as it goes,
        and where a job cannot be composed, which Hydra says itself before it starts the first.
    """
    arguments = get_args_parser().parse_args(list(argv))
    if not arguments.multirun or any(line.startswith("hydra/sweeper=") for line in arguments.overrides):
        return []
    try:
        with _loader(config_dir, arguments.config_dir) as loader:
            overrides = OverridesParser.create(config_loader=loader).parse_overrides(arguments.overrides)
            own = [override for override in overrides if not override.is_hydra_override()]
            (jobs,) = BasicSweeper.split_arguments(own, None)
            return [(job, compose(arguments.config_name or config_name, overrides=job)) for job in jobs]
    except (HydraException, OmegaConfBaseException):
        return []


def _override_errors(loader: ConfigLoader, config_name: str, overrides: Sequence[Override]) -> list[str]:
    base = _compose_plain(config_name, [])
    groups = [override for override in overrides if _is_choice(loader, override)]
    keys = [override for override in overrides if override not in groups]
    if errors := _group_errors(loader, config_name, groups, base):
        return errors  # what a key may be depends on the options
    found: dict[str, None] = {}  # a set that keeps the order
    for choices in _variants(groups):
        config = _retargeted(_compose_plain(config_name, choices) if choices else base, keys)
        found |= dict.fromkeys(unknown_key(key, base, "the configuration") for key in config if key not in base)
        found |= dict.fromkeys(message for override in keys if (message := _key_error(loader, override, config)))
    return list(found)


def _group_errors(loader: Any, config_name: str, groups: Sequence[Override], base: Mapping[str, Any]) -> list[str]:
    """Check the choices from the outermost groups inwards: which groups there are within one depends on its option."""
    composed, outer = base, list[Override]()
    defaults = loader.repository.load_config(config_name).defaults_list
    lists = {default.group: _LIST for default in defaults if isinstance(getattr(default, "value", None), list)}
    for depth in sorted({override.key_or_group.count("/") for override in groups}):
        if outer:
            composed = _compose_plain(config_name, next(_variants(outer)))
        chosen = lists | composed["hydra"]["runtime"]["choices"]  # which names no choice where a default is a list
        level = [override for override in groups if override.key_or_group.count("/") == depth]
        if errors := [message for override in level for message in _choice_errors(loader, override, chosen)]:
            return errors
        outer += level
    return []


def _unknown_flags(argv: Sequence[str]) -> list[str]:
    """Find options that Hydra has not. An abbreviation is none: ``--experiment`` would be ``--experimental-rerun``."""
    parser = get_args_parser()
    parser.allow_abbrev = False
    long = [
        word for word in argv if word.startswith("--") and word.partition("=")[0] not in parser._option_string_actions
    ]
    rest = parser.parse_known_args([word for word in argv if word not in long])[1]
    return long + [word for word in rest if word.startswith("-")]


def _flag_error(flag: str) -> str:
    name, _, value = flag.lstrip("-").partition("=")
    near = similar(flag.partition("=")[0], get_args_parser()._option_string_actions, n=1, cutoff=0.8)
    plus = "+" * (name == "experiment")
    way_out = f"did you mean {near[0]}?" if near else f"settings have no dashes: {plus}{name}={value or '<value>'}"
    return f"unknown option {flag}; {way_out} (--help says what there is)"


def _composition_error(text: str) -> str:
    unplaced = re.search("Could not override '([^']+)'", text)
    if unplaced and unplaced[1] == "objective":
        return "objective=...: the chosen advantage has no objective; add advantage=exact or advantage=stratified"
    return f"the configuration cannot be composed: {text}"


@contextmanager
def _loader(config_dir: str | Path, further: str | None = None) -> Iterator[Any]:
    """Find options in a further folder too: a search path given to ``compose`` would not be there for listing them."""
    with initialize_config_dir(str(Path(config_dir).resolve()), job_name="train", version_base=VERSION_BASE):
        loader: Any = GlobalHydra.instance().config_loader()
        if further:  # before the schema, which has to stay last
            loader.config_search_path.prepend("command line", f"file://{Path(further).resolve()}", "schema")
            loader.repository.initialize_sources(loader.config_search_path)
        yield loader


def _compose_plain(config_name: str, overrides: Sequence[str]) -> dict[str, Any]:
    config = compose(config_name, overrides=list(overrides), return_hydra_config=True)
    plain: Any = OmegaConf.to_container(config, resolve=False)
    return plain


def _bare_experiments(loader: ConfigLoader, config_name: str, lines: Sequence[str]) -> dict[str, str]:
    """Find words that are names of experiments which the program could compose, and the names as they are written."""
    words = [line for line in lines if "=" not in line]
    known = {name.lower(): name for name in _options(loader, "experiment")} if words else {}
    named = {word: known[word.lower()] for word in words if word.lower() in known}
    return {word: name for word, name in named.items() if _composes(config_name, f"+experiment={name}")}


def _composes(config_name: str, override: str) -> bool:
    try:
        compose(config_name, overrides=[override])
    except (HydraException, OmegaConfBaseException):
        return False
    return True


def _parse(
    lines: Sequence[str], experiments: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[Override], list[str]]:
    """Read arguments; those that cannot be read become messages, which tell ``experiments`` how they are chosen."""
    overrides, errors = [], []
    for line in lines:
        if line in experiments:
            errors.append(f"{line}: an argument is key=value; did you mean +experiment={experiments[line]}?")
            continue
        try:
            (override,) = OverridesParser.create().parse_overrides([line])
        except HydraException as error:
            key, _, value = line.partition("=")
            is_text = value and value[0] not in "{[" and '"' not in value
            way_out = f"; quotes keep every character: '{key}=\"{value}\"'" if is_text else ""
            if value.endswith(","):
                way_out = "; leave out the comma at its end"
            errors.append(f"cannot read {line!r}: {str(error).splitlines()[0]}; an argument is key=value{way_out}")
            continue
        if not override.is_hydra_override():  # Hydra's own settings are Hydra's to judge
            overrides.append(override)
    return overrides, errors


def _is_choice(loader: Any, override: Override) -> bool:
    group = override.key_or_group
    parent, _, last = group.rpartition("/")
    is_group = last in _subgroups(loader, parent)
    return is_group and not isinstance(override.value(), dict)  # sampler={k_pos: 2} sets keys


def _options(loader: Any, group: str) -> list[str]:
    options = _offered(loader, group)
    for subgroup in _subgroups(loader, group):
        options += [f"{subgroup}/{option}" for option in _options(loader, f"{group}/{subgroup}")]
    return sorted(options)


def _offered(loader: Any, group: str) -> list[str]:
    """Options of a group, without files such as ``_service``, which others build on."""
    # Not by the loader's own method, which first copies the search path: most of the time that this check takes.
    names = loader.repository.get_group_options(group, ObjectType.CONFIG)
    return [name for name in names if not name.startswith("_")]


def _subgroups(loader: Any, parent: str) -> list[str]:
    found: list[str] = loader.repository.get_group_options(parent, ObjectType.GROUP)
    return found


def _values(override: Override) -> list[str]:
    """What an override of a group chooses, for each job: ``a`` or ``[a,b]``; nothing for ``~group``, ``glob(...)``."""
    value = override.value()
    if override.is_choice_sweep():
        return list(override.sweep_string_iterator()) if isinstance(getattr(value, "list", None), list) else []
    if isinstance(value, list):
        return [f"[{','.join(map(str, value))}]"]
    return [] if value is None or override.is_delete() else [str(value)]


def _choice_errors(loader: ConfigLoader, override: Override, chosen: Mapping[str, str]) -> list[str]:
    group, line = override.key_or_group, override.input_line or ""
    options = _options(loader, group)
    errors = []
    if override.value() is None and not override.is_delete():
        return [f"{line}: null is no option; options: {', '.join(options)}"]
    named = [name.strip() for value in _values(override) for name in value.strip("[]").split(",") if name]
    for value in named:
        if value.removesuffix(".yaml") not in options:
            near = similar(value, options, n=3)
            hint = f"did you mean {_either(near)}? " if near else ""
            errors.append(f"unknown option {group}={value}; {hint}options: {', '.join(options)}")
    if override.value() == []:
        errors.append(f"{line}: an empty list chooses no option; options: {', '.join(options)}")
    return errors or _place_errors(override, chosen, options)


def _place_errors(override: Override, chosen: Mapping[str, str], options: Sequence[str]) -> list[str]:
    """Say whether an option is chosen there at all, so that another one can take its place."""
    group, line = override.key_or_group, override.input_line or ""
    if group in chosen:
        if override.is_delete() and chosen[group] == _LIST:
            return [f"{line}: {group} cannot be left out; choose with {group}=<option>, of {', '.join(options)}"]
        plain = line.lstrip("+")
        return [f"{line}: {group} has an option already; leave out the plus: {plain}"] if override.is_add() else []
    if override.is_add() or override.is_force_add():
        return []
    if override.is_delete():
        return [f"{line}: nothing was chosen for {group}, so there is nothing to leave out"]
    outer, _, part = group.rpartition("/")
    if outer in chosen:
        return [f"{line}: {outer}={chosen[outer]} has no {part} to choose; choose another {outer}, or leave it out"]
    return [f"{line}: {group} needs a plus: +{line}"]


def _either(words: Sequence[str]) -> str:
    """Spell a choice: ``a``, ``a or b``, ``a, b or c``."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _variants(groups: Sequence[Override]) -> Iterator[list[str]]:
    """Options of the first job, then of one job for each further option of a sweep, the others as in the first."""
    fixed = [override.input_line or "" for override in groups if not override.is_sweep_override()]
    swept = [
        [f"{override.input_line.partition('=')[0]}={value}" for value in _values(override)]
        for override in groups
        if override.is_sweep_override() and override.input_line
    ]
    swept = [lines for lines in swept if lines]
    first = [lines[0] for lines in swept]
    yield [*fixed, *first]
    for index, lines in enumerate(swept):
        for line in lines[1:]:
            yield [*fixed, *first[:index], line, *first[index + 1 :]]


def _retargeted(config: Mapping[str, Any], keys: Sequence[Override]) -> dict[str, Any]:
    """Return the configuration with the classes that ``<part>._target_=...`` puts in the place of others.

    What keys a part takes is its class's to say, and Hydra lays one override over the next.
    """
    changed: dict[str, Any] = deepcopy(dict(config))
    for override in keys:
        *names, last = override.key_or_group.split(".")
        depth, node = _walk(changed, names)
        if last == "_target_" and depth == len(names) and isinstance(node, dict) and isinstance(override.value(), str):
            node[last] = override.value()
    return changed


def _key_error(loader: ConfigLoader, override: Override, config: Mapping[str, Any]) -> str | None:
    """Say what is wrong with an override of a key, given the composed configuration it applies to."""
    key, line = override.key_or_group, override.input_line or ""
    if "/" in key or override.package is not None:
        return f"{line}: there is no config group {key.split('@')[0]}"
    if key in WITHOUT_EFFECT and not override.is_delete():
        return f"{line}: {key} {WITHOUT_EFFECT[key]}"
    names = key.split(".")
    depth, node = _walk(config, names)
    if depth == len(names) or (isinstance(node, str) and "${" in node):  # there it is, or below an interpolation
        is_merged = isinstance(node, dict) and isinstance(override.value(), dict)
        if override.is_add() and depth == len(names) and not is_merged:
            return f"{line}: {key} exists already; leave out the plus: {line.lstrip('+')}"
        if isinstance(node, list) and isinstance(override.value(), dict) and depth == len(names):
            return f"{line}: {key} is a list and not keys with values; write {key}=[...]"
        return _mapping_error(loader, override, node) if isinstance(node, dict) else None
    is_added = override.is_add() or override.is_force_add()
    owner = ".".join(names[:depth])
    if not isinstance(node, dict):
        return f"{line}: {owner} is a value and has no keys"
    accepted = _accepted_in(node, is_top=depth == 0, is_added=is_added)
    if accepted is None or names[depth] in accepted:
        if override.is_delete():
            return f"{line}: {key} is not set, so there is nothing to leave out"
        return None if is_added else f"{key} is not set in the configuration; to add it write +{line}"
    unknown = ".".join(names[: depth + 1])
    if meant := elsewhere(config, names[-1]):
        return f"unknown key {unknown}; did you mean {_either(meant)}?"
    component = str(node.get("_target_", "")).rpartition(".")[2]
    return unknown_key(unknown, accepted, component or owner or "the configuration")


def _mapping_error(loader: ConfigLoader, override: Override, node: Mapping[str, Any]) -> str | None:
    """Say what of a value cannot be laid over a node of keys with values."""
    value, key = override.value(), override.key_or_group
    if isinstance(value, list):
        names = ", ".join(str(name) for name in node if name != "_target_")
        return (
            f"{override.input_line}: {key} is not a list but keys with values ({names}); to add one: +{key}.<name>={{}}"
        )
    if value == {} and node:
        return f"{override.input_line}: an empty mapping changes nothing in {key}"
    if "_target_" in node and isinstance(value, str | int | float) and "${" not in str(value):
        return _word_error(loader, key, str(value))
    new = [name for name in value if name not in node] if isinstance(value, dict) and not override.is_add() else []
    accepted = _accepted_in(node, is_top=False, is_added=True)
    if new and accepted is not None and new[0] not in accepted:
        return unknown_key(f"{key}.{new[0]}", accepted, str(node["_target_"]).rpartition(".")[2])
    return f"{key}.{new[0]} is not set in the configuration; to add it write +{key}.{new[0]}=..." if new else None


def _word_error(loader: ConfigLoader, key: str, word: str) -> str | None:
    """Say how a part is chosen that was given as a word: by its group, or with the group around it."""
    own = key.replace(".", "/")
    outer = own.rpartition("/")[0]
    if outer in GROUPS_OF_COMPONENTS:  # callbacks.preview=false: how to leave one out is said with the composed keys
        return None
    named = {group: _offered(loader, group) for group in (own, outer)}
    choices = {group: options for group, options in named.items() if options}
    way_out = next((f"write {group}={word}" for group, options in choices.items() if word in options), "")
    listed = "; or ".join(f"{group}=<option>, of {', '.join(options)}" for group, options in choices.items())
    return f"{key}={word}: {key} is a part with settings, not a single value; {way_out or f'choose one by {listed}'}"


def _walk(config: Mapping[str, Any], names: Sequence[str]) -> tuple[int, Any]:
    """Follow a dotted key as far as it exists: how many names, and the node there."""
    node: Any = config
    for depth, name in enumerate(names):
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdigit() and int(name) < len(node):
            node = node[int(name)]
        else:
            return depth, node
    return len(names), node


def _accepted_in(node: Mapping[str, Any], *, is_top: bool, is_added: bool) -> Collection[str] | None:
    """Keys that may stand in a node; None where any may."""
    target = node.get("_target_")
    if isinstance(target, str) and "${" not in target:
        return accepted_keys(target)
    if (is_added or not node) and not is_top:
        return None  # a further callback, or an entry of a free-form mapping
    return node.keys() - {"hydra"}
