"""Finds values of the wrong type by the annotations of constructors, and values that are infinite or not a number.

OmegaConf leaves words such as ``no`` as texts. Annotations are read as text, so that nothing which they name has to be
imported, and a message says what to write: both are why no validation library does this.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ada_lightning.config.problems import origin
from ada_lightning.core.options import locate
from ada_lightning.methods.view import MethodView, UnresolvedError

KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "list": ((Sequence,), "a list, [a,b]"),
    "dict": ((Mapping,), "keys with values, {a: 1}"),
}
"""Annotations that are looked at: types of the values that each takes, and what to write for it."""
SAME_KIND = {"tuple": "list", "Sequence": "list", "Mapping": "dict"} | {name: name for name in KINDS}
NEVER_WRITTEN = "Tensor"
"""Alternative of an annotation that no value of a configuration is."""
AT_TOP = {
    "preview": "bool", "reproducible": "bool", "allow_other_method": "bool", "num_steps": "int", "seed": "int",
    "policy": "PolicyModule",
}  # fmt: skip
"""Annotations of values at the top, which belong to no constructor."""
CHECKED_ELSEWHERE = ("trainer.devices", "trainer.num_nodes")
"""Keys with a check of their own, which knows that ``auto`` stands for a number."""
MAY_BE_INFINITE = frozenset(
    {
        "clip_high", "dual_clip", "every_n_tokens", "high", "importance_cap", "low", "max_generated_tokens",
        "max_grad_norm", "max_heldout_prompts", "max_improvement", "max_norm_ratio", "max_prompts", "max_seconds",
        "max_shift", "max_waste_ratio", "max_weight", "min_improvement", "prompt_drift_visits", "ratio_cap",
        "stop_logprob_gap",
    }
)  # fmt: skip
"""Limits that infinity switches off. Anything else it would turn into weights or rewards that are infinite too."""
OURS = ("ada_lightning.", "torch.", "lightning.")
"""Beginnings of ``_target_``: parts of one's own may mean something by infinity, and by a seed below 0."""
MAX_SEED = 2**32 - 1
"""What NumPy's generator takes, and so ``seed_everything``."""


def value_errors(view: MethodView) -> dict[str, str]:
    """Look at every value, and compare arguments of a ``_target_`` with the annotations of its parameters.

    Only annotations made of ``bool``, ``int``, ``float``, ``None``, literals, lists and mappings are judged; a union
    takes what one of its members takes.

    Returns:
        Message by dotted key. A value that several keys refer to has one message, which names where it was written,
        under each of them.
    """
    found = {}
    for key, name, annotation, is_ours in _values("", view.plain, AT_TOP, is_ours=True):
        try:
            value = view.read(key)
        except UnresolvedError:  # nobody gave it, or it refers to nothing: both are reported by themselves
            continue
        typed = origin(view.plain, key)
        message = "" if key in CHECKED_ELSEWHERE else kind_message(typed, value, annotation)
        if value is None and is_ours and not message:
            message = _null_message(typed, annotation)
        if message := message or _number_message(typed, name, value, is_ours=is_ours):
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
    try:
        members = _Members().add(ast.parse(annotation.strip(), mode="eval").body)
    except (SyntaxError, _Unjudged):
        return ""
    wanted = [words for name, (_, words) in KINDS.items() if name in members.kinds]
    if "float" in members.kinds and "int" in members.kinds:
        wanted.remove(KINDS["int"][1])
    is_part = isinstance(value, Mapping) and "_target_" in value
    if not wanted or is_part or members.take(value):
        return ""
    constants = [_spelt(value) if value is None else repr(value) for value in members.constants]
    wanted += sorted(constants, key=lambda text: text == "null")
    return f"{key}={_spelt(value)} is {_described(value)}, write {' or '.join(wanted)}"


def _null_message(key: str, annotation: str) -> str:
    """Say that null stands where something is needed; empty where the annotation takes it, or says nothing.

    Example:
        >>> _null_message("data.source", "PromptSource"), _null_message("data.only", "Mine | None")
        ('data.source=null is null, where PromptSource is needed; leave it out to have the default', '')
    """
    try:
        names = {ast.unparse(node).rpartition(".")[2] for node in ast.walk(ast.parse(annotation.strip(), mode="eval"))}
    except SyntaxError:
        return ""
    if not annotation or names & {"None", "Optional", "Any", "object"}:
        return ""
    return f"{key}=null is null, where {annotation} is needed; leave it out to have the default"


class _Unjudged(Exception):  # noqa: N818 - no error: nothing is said about such annotations
    pass


@dataclass(slots=True)
class _Members:
    """Alternatives of an annotation."""

    kinds: set[str] = field(default_factory=set)
    constants: list[Any] = field(default_factory=list)

    def take(self, value: Any) -> bool:
        """Whether a value is one of them. A truth value is no number."""
        return any(_is_kind(value, name) for name in self.kinds) or any(
            type(value) is type(constant) and value == constant for constant in self.constants
        )

    def add(self, node: ast.expr) -> _Members:
        """Add those of an expression.

        Raises:
            _Unjudged: it holds anything else than what is judged.
        """
        inner: list[ast.expr] = []
        if isinstance(node, ast.Subscript):
            inner, node = (node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]), node.value
        name = ast.unparse(node).rpartition(".")[2]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            inner = [node.left, node.right]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # a name in quotes within an annotation
            inner = [ast.parse(node.value, mode="eval").body]
        elif isinstance(node, ast.Constant):
            self.constants.append(node.value)
        elif name == "Literal":
            self.constants += [each.value for each in inner if isinstance(each, ast.Constant)]
            return self
        elif name in SAME_KIND and (SAME_KIND[name] in ("list", "dict") or not inner):
            self.kinds.add(SAME_KIND[name])
            return self
        elif name == "Optional":
            self.constants.append(None)
        elif name not in ("Union", NEVER_WRITTEN):
            raise _Unjudged
        for each in inner:
            self.add(each)
        return self


def _is_kind(value: Any, name: str) -> bool:
    if name in ("list", "dict"):
        return isinstance(value, KINDS[name][0]) and not isinstance(value, str)
    return type(value) in KINDS[name][0]


def _number_message(key: str, name: str, value: Any, *, is_ours: bool) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, float) and math.isnan(value):
        return f"{key}={value} is no number, write a finite one"
    if is_ours and name == "seed" and not 0 <= value <= MAX_SEED:
        return f"{key}={value} is out of range: a seed is a whole number from 0 to {MAX_SEED}"
    if is_ours and isinstance(value, float) and math.isinf(value) and name not in MAY_BE_INFINITE:
        return f"{key}={value} is infinite, write a finite number"
    return ""


def _values(
    path: str, node: Any, annotations: Mapping[str, str], *, is_ours: bool, name: str = ""
) -> Iterator[tuple[str, str, str, bool]]:
    """Everything below a node: dotted key, the name it is given by, its annotation, whether a part of ours gets it."""
    for key, value in enumerate(node) if isinstance(node, list) else node.items():
        own = str(key) if isinstance(node, dict) else name
        yield f"{path}{key}", own, annotations.get(str(key), ""), is_ours
        if isinstance(value, dict | list):
            target = value.get("_target_") if isinstance(value, dict) else None
            part = target if isinstance(target, str) else ""
            ours = part.startswith(OURS) if part else is_ours
            yield from _values(f"{path}{key}.", value, _annotations(part), is_ours=ours, name=own)


def _annotations(target: str) -> Mapping[str, str]:
    """Annotation by parameter of what a ``_target_`` names, where it can be told."""
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
    return "a group of keys" if isinstance(value, Mapping) else "a list"
