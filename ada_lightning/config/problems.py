"""Finds problems of one node of a configuration; the checks of all programs use this."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ada_lightning.methods.view import MethodView, MissingError, UnresolvedError

ENGINE_ARGUMENTS = ("model_path", "log_file", "max_model_tokens", "eos_token_ids")
"""Arguments of ``rollout.engine`` that every program fills in."""
_INSIDE = {"environment": "rollout.environment"}
"""Parts that stand at the top, by the place where they are used."""
_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")


class ConfigError(ValueError):
    """The configuration cannot work. Its text is a numbered list of every problem found."""

    def __init__(self, problems: Collection[str]) -> None:
        noun = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = [f"  {number}. {problem}" for number, problem in enumerate(problems, start=1)]
        super().__init__("\n".join([f"the configuration has {noun}:", *lines]))
        self.problems = list(problems)


def missing_values(view: MethodView) -> dict[str, str]:
    """Messages about values that nobody gave, by dotted key."""
    missing = sorted(key for key, value in _leaves(view.plain, "") if value == "???")
    return {key: f"{key} needs a value; give it on the command line: {key}=<value>" for key in missing}


def interpolation_errors(view: MethodView) -> list[str]:
    """Say which references cannot be resolved, and what to do about each."""
    return [
        message
        for key, value in _leaves(view.plain, "")
        if isinstance(value, str) and "${" in value and (message := _interpolation_error(view, key))
    ]


def _interpolation_error(view: MethodView, key: str) -> str:
    try:
        view.read(key)
    except MissingError:
        return ""  # the missing value itself is reported
    except UnresolvedError as error:
        part = f", or choose another {key.partition('.')[0]}" if "." in key else ""
        return f"{key}: {error}; give it one of its own, {key}=<value>{part}"
    return ""


def _leaves(plain: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) of every value as it is written: resolved, one bad reference would hide the others."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            yield from _leaves(value, f"{key}.{name}" if key else str(name))
    elif isinstance(plain, list):
        for index, value in enumerate(plain):
            yield from _leaves(value, f"{key}[{index}]")
    else:
        yield key, plain


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
        if not any(text == other_text and _INSIDE.get(name, name).startswith(f"{key}.") for _, name, other_text in told)
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
