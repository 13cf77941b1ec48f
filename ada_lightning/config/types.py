"""Values of another kind than a constructor's annotation says: OmegaConf leaves words such as ``no`` as texts."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ada_lightning.config.keys import locate
from ada_lightning.config.numbers import number_errors
from ada_lightning.config.problems import origin

KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "list": "a list, [a,b]",
    "dict": "keys with values, {a: 1}",
}
"""Annotations that are looked at, and what to write for each."""
AT_TOP = {"preview": "bool", "reproducible": "bool", "allow_other_method": "bool", "num_steps": "int", "seed": "int"}
"""Annotations of values at the top, which belong to no constructor."""
_LISTS = ("list", "tuple", "Sequence")
_MAPPINGS = ("dict", "Mapping")
_NEVER_WRITTEN = ("Tensor",)
"""Alternatives of annotations that no value of a configuration is."""
CHECKED_ELSEWHERE = ("trainer.devices", "trainer.num_nodes")
"""Keys with a check of their own, which knows that ``auto`` stands for a number."""


def type_errors(cfg: DictConfig) -> dict[str, str]:
    """Compare every value beside a ``_target_`` with the annotation of the parameter that it is given to.

    Annotations are read as text, so that nothing which they name needs to be imported. Only those made of ``bool``,
    ``int``, ``float``, ``None``, literals, lists and mappings are judged; a union takes what one of its members takes.
    Numbers are judged by :func:`~ada_lightning.config.numbers.number_errors` besides.

    Args:
        cfg: the composed configuration.

    Returns:
        Message by dotted key. A value that several keys refer to has one message, which names where it was written,
        under each of them.
    """
    plain: Any = OmegaConf.to_container(cfg, resolve=False)
    found = number_errors(cfg)
    for key, annotation in (*_values_at_top(plain), *_values_below("", plain)):
        try:
            value = OmegaConf.select(cfg, key, throw_on_missing=True)
        except OmegaConfBaseException:  # nobody gave it, or it refers to nothing: both are reported by themselves
            continue
        if key not in CHECKED_ELSEWHERE and (message := kind_message(origin(plain, key), value, annotation)):
            found[key] = message
    return found


def kind_message(key: str, value: Any, annotation: str) -> str:
    """Say how a value differs from an annotation; empty where it does not, or where the annotation says nothing.

    Example:
        >>> kind_message("policy.compile", "no", "bool")
        "policy.compile=no is the word 'no', write true or false"
        >>> kind_message("sampler.k_pos", 2.5, "int"), kind_message("sampler.k_pos", 2, "int | None")
        ('sampler.k_pos=2.5 is the number 2.5, write a whole number', '')
    """
    members = _members(annotation)
    if members is None or _is_one_of(value, members) or (isinstance(value, DictConfig) and "_target_" in value):
        return ""
    wanted = [KINDS[name] for name in KINDS if name in members and not (name == "int" and "float" in members)]
    if not wanted:
        return ""
    texts = [repr(member.value) for member in members if isinstance(member, ast.Constant) and member.value is not None]
    nothing = ["null"] if _takes_none(members) else []
    return f"{key}={_spelt(value)} is {_described(value)}, write {' or '.join([*wanted, *texts, *nothing])}"


def _values_at_top(plain: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from ((name, annotation) for name, annotation in AT_TOP.items() if name in plain)


def _values_below(path: str, node: Any) -> Iterator[tuple[str, str]]:
    """Every value below a node that is given to an annotated parameter: dotted key, annotation."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _values_below(f"{path}{index}.", item)
    elif isinstance(node, dict):
        annotations = _annotations(node.get("_target_"))
        for name, value in node.items():
            if name in annotations:
                yield f"{path}{name}", annotations[name]
            yield from _values_below(f"{path}{name}.", value)


def _annotations(target: Any) -> Mapping[str, str]:
    """Annotation by parameter of what a ``_target_`` names, where it can be told."""
    if not isinstance(target, str):
        return {}
    try:
        parameters = inspect.signature(locate(target)).parameters.values()
    except (ImportError, AttributeError, ValueError, TypeError):  # reported by the check of keys, or does not tell
        return {}
    return {
        parameter.name: _text(parameter.annotation)
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.annotation is not parameter.empty
    }


def _text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _members(annotation: str) -> list[str | ast.Constant] | None:
    """Alternatives of an annotation: names of :data:`KINDS`, and constants; None where it holds anything else."""
    try:
        return _members_of(ast.parse(annotation.strip(), mode="eval").body)
    except (SyntaxError, _Unjudged):
        return None


class _Unjudged(Exception):  # noqa: N818 - no error: nothing is said about such annotations
    pass


def _members_of(node: ast.expr) -> list[str | ast.Constant]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _members_of(node.left) + _members_of(node.right)
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and (kind := _kind(node)) is not None:
        return [kind] if kind else []
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):  # a name in quotes within an annotation
            return _members_of(ast.parse(node.value, mode="eval").body)
        return [node]
    if isinstance(node, ast.Subscript):
        name = ast.unparse(node.value).rpartition(".")[2]
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Literal":
            return [each for each in inner if isinstance(each, ast.Constant)]
        if name in ("Optional", "Union"):
            members = [member for each in inner for member in _members_of(each)]
            return [*members, ast.Constant(None)] if name == "Optional" else members
    raise _Unjudged


def _kind(node: ast.Name | ast.Attribute | ast.Subscript) -> str | None:
    """Key of :data:`KINDS`; empty for what no configuration writes, None for anything else."""
    text = ast.unparse(node.value if isinstance(node, ast.Subscript) else node)
    name = text.rpartition(".")[2]
    if name in _NEVER_WRITTEN:
        return ""
    if name in _LISTS:
        return "list"
    if name in _MAPPINGS:
        return "dict"
    return name if name in KINDS and not isinstance(node, ast.Subscript) else None


def _is_one_of(value: Any, members: list[str | ast.Constant]) -> bool:
    return any(_is_a(value, member) for member in members)


def _is_a(value: Any, member: str | ast.Constant) -> bool:
    if isinstance(member, ast.Constant):
        return type(value) is type(member.value) and bool(value == member.value)
    if member in ("list", "dict"):
        return isinstance(value, ListConfig if member == "list" else DictConfig)
    if member == "bool" or isinstance(value, bool):
        return member == "bool" and isinstance(value, bool)
    return isinstance(value, int) or (member == "float" and isinstance(value, float))


def _takes_none(members: list[str | ast.Constant]) -> bool:
    return any(isinstance(member, ast.Constant) and member.value is None for member in members)


def _spelt(value: Any) -> str:
    """Spell a value as on a command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _described(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        infinity = " (infinity is inf on a command line)" if value.lstrip("+-").lower() == ".inf" else ""
        return f"the word {value!r}{infinity}"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, ListConfig) else "a group of keys"
