"""What can be found wrong with one node of a configuration; the checks of every program are made of these."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationKeyError, InterpolationToMissingValueError, OmegaConfBaseException

from ada_lightning.config.keys import locate

ENGINE_ARGUMENTS = ("model_path", "log_file", "max_model_tokens", "eos_token_ids")
"""Arguments of ``rollout.engine`` that every program fills in."""
_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")


class ConfigError(ValueError):
    """The configuration cannot work. Its text is a numbered list of every problem found."""

    def __init__(self, problems: Collection[str]) -> None:
        noun = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = [f"  {number}. {problem}" for number, problem in enumerate(problems, start=1)]
        super().__init__("\n".join([f"the configuration has {noun}:", *lines]))
        self.problems = list(problems)


def missing_values(cfg: DictConfig) -> dict[str, str]:
    """Messages about values that nobody gave, by dotted key."""
    return {
        key: f"{key} has no value and needs one; give it on the command line: {key}=<value>"
        for key, value in sorted(_written_values(cfg))
        if value == "???"
    }


def interpolation_errors(cfg: DictConfig) -> list[str]:
    """Say which interpolations cannot be resolved, and what to do about each."""
    return [
        message
        for key, value in _written_values(cfg)
        if isinstance(value, str) and "${" in value and (message := _interpolation_error(cfg, key))
    ]


def _interpolation_error(cfg: DictConfig, key: str) -> str:
    try:
        OmegaConf.select(cfg, key)
    except InterpolationToMissingValueError:
        return ""  # the missing value itself is reported
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        if isinstance(error, InterpolationKeyError):
            reason = f"its value is that of a key which the chosen parts do not have ({reason})"
        part = f", or choose another {key.partition('.')[0]}" if "." in key else ""
        return f"{key}: {reason}; give it one of its own, {key}=<value>{part}"
    return ""


def _written_values(cfg: DictConfig) -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) of every value as it is written: resolved, one bad reference would hide the others."""
    plain: Any = OmegaConf.to_container(cfg, resolve=False)
    return _leaves(plain, "")


def _leaves(plain: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(plain, dict):
        for name, value in plain.items():
            yield from _leaves(value, f"{key}.{name}" if key else str(name))
    elif isinstance(plain, list):
        for index, value in enumerate(plain):
            yield from _leaves(value, f"{key}[{index}]")
    else:
        yield key, plain


def overruled_errors(cfg: DictConfig, key: str, completed: Collection[str]) -> list[str]:
    """Say which arguments of a component are set although the program fills them in.

    Args:
        cfg: the composed configuration.
        key: dotted key of the component.
        completed: arguments that the program fills in.
    """
    node = value_at(cfg, key)
    names = sorted(set(node) & set(completed)) if isinstance(node, DictConfig) else []
    return [f"{key}.{name} is filled in by the program and cannot be set; leave it out" for name in names]


def component_errors(cfg: DictConfig, key: str, completed: Collection[str] = ()) -> list[str]:
    """Try a constructor, with empty stand-ins for what the program fills in later, and its ``check()`` if it has one.

    Args:
        cfg: the composed configuration.
        key: dotted key of the component.
        completed: arguments that the program fills in.

    Returns:
        One message, or none where the node is in order or no component.
    """
    node = value_at(cfg, key)
    if not isinstance(node, DictConfig) or "_target_" not in node:
        return []
    try:
        component = instantiate(node, _partial_=False, **dict.fromkeys(completed, ()))
        if callable(check := getattr(component, "check", None)):
            check()
    except OmegaConfBaseException:  # a value that is missing or cannot be resolved is reported by itself
        return []
    except InstantiationException as error:
        cause = error.__cause__ or error
        place = re.search(r"^full_key: ([\w.]+)$", str(error), re.MULTILINE)  # of the part within it that failed
        if isinstance(cause, OmegaConfBaseException):
            return []
        return [_with_typed_keys(cfg, component_message(place[1] if place else key, cause))]
    except (ValueError, TypeError, OSError, ImportError) as error:
        return [_with_typed_keys(cfg, component_message(key, error))]
    return []


def _with_typed_keys(cfg: DictConfig, message: str) -> str:
    """Replace keys whose value is that of another one by that one: a constructor knows its own arguments only."""
    plain: Any = OmegaConf.to_container(cfg, resolve=False)
    return re.sub(r"\b[a-z_]+(?:\.\w+)+", lambda key: origin(plain, key[0]), message)


def component_message(key: str, error: BaseException) -> str:
    """Spell what a constructor raised.

    Example:
        >>> component_message("data.source", ValueError("path is empty")), component_message("model", OSError("gone"))
        ('data.source: path is empty', 'model: OSError: gone')
    """
    return f"{key}: {error}" if isinstance(error, ValueError) else f"{key}: {type(error).__name__}: {error}"


def distinct(problems: Sequence[str]) -> list[str]:
    """Leave each problem once: what is wrong with a part is raised again by whatever the part belongs to.

    Example:
        >>> distinct(["data.source: no file", "data: no file", "reward: no file"])
        ['data.source: no file', 'reward: no file']
    """
    told = [(problem, *problem.partition(": ")[::2]) for problem in dict.fromkeys(problems)]
    return [
        problem
        for problem, key, text in told
        if not any(text == other_text and other.startswith(f"{key}.") for _, other, other_text in told)
    ]


def origin(plain: Mapping[str, Any], key: str) -> str:
    """Follow plain references to the key that has the value itself: the one to type.

    Example:
        >>> origin({"seed": 1, "data": {"seed": "${seed}"}}, "data.seed")
        'seed'
    """
    seen = {key}
    while reference := _REFERENCE.fullmatch(str(_written_at(plain, key))):
        if reference[1] in seen:  # a circle is reported by the check of interpolations
            break
        seen.add(key := reference[1])
    return key


def _written_at(plain: Mapping[str, Any], key: str) -> Any:
    node: Any = plain
    for name in key.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    return node


def value_at(cfg: DictConfig, key: str) -> Any:
    """Value at a dotted key; None where there is none."""
    try:
        return OmegaConf.select(cfg, key)
    except OmegaConfBaseException:  # an interpolation that cannot be resolved is reported by itself
        return None


def number_at(cfg: DictConfig, key: str) -> int | float | None:
    """Value at a dotted key; None where there is none or it is no number."""
    value = value_at(cfg, key)
    return value if isinstance(value, int | float) else None


def class_at(cfg: DictConfig, key: str) -> type:
    """Class of a component; ``object`` where there is none or it cannot be loaded, which is reported by itself."""
    target = value_at(cfg, f"{key}._target_")
    try:
        found = locate(target) if isinstance(target, str) else object
    except (ImportError, AttributeError):
        return object
    return found if isinstance(found, type) else object
