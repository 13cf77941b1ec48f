"""Definitions out of an installed package's files, compiled alone: its imports, which may want a GPU, do not run.

Nothing of them is written down here. What a definition reads of its module is handed to it by name.
"""

from __future__ import annotations

import ast
import functools
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_FUTURE = ast.parse("from __future__ import annotations").body


def file_of(package: str, path: str) -> Path:
    """Return a file of a package, which is not imported.

    Raises:
        LookupError: the package is not installed.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(f"{package} is not installed")
    return Path(spec.submodule_search_locations[0]) / path


def definition(path: Path, name: str, **names: Any) -> Any:
    """Return a class or a function of a file.

    Args:
        path: the file.
        name: of the definition, such as ``Trainer`` or ``Trainer.loss``. Decorators stay.
        names: what it reads of its module.

    Raises:
        LookupError: the file has no such definition.
    """
    found: Any = _parsed(path)
    for part in name.split("."):
        defined = [node for node in found.body if getattr(node, "name", None) == part]
        if not defined:
            raise LookupError(f"{path} has no {name}")
        found = defined[-1]
    return run(path, [found], **names)[found.name]


def top_level(path: Path) -> list[Any]:
    """Return the statements of a file."""
    return list(_parsed(path).body)


def run(path: Path, statements: list[Any], **names: Any) -> dict[str, Any]:
    """Run statements of a file, and return the names that there are behind them."""
    space = dict(names) | {"__name__": path.stem}
    exec(compile(ast.Module([*_FUTURE, *statements], []), str(path), "exec"), space)
    return space


@functools.cache
def _parsed(path: Path) -> Any:
    return ast.parse(path.read_text(encoding="utf-8"))
