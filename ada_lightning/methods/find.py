"""Finds the module of an option or a recipe by reading the sources, so that one method does not load all."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path

from ada_lightning.core.options import OPTIONS, Option
from ada_lightning.methods.recipe import RECIPES, Recipe

METHODS = Path(__file__).parent
_OPTION = re.compile(r'^(?:@option|preset)\(\s*"(?P<group>[\w/]+)",\s*"(?P<name>\w+)"', re.MULTILINE)
_RECIPE = re.compile(r'\b(?:Recipe|replace|with_)\(\s*(?:\w+,\s*)?name="(?P<name>[\w/]+)"')


def find_option(group: str, name: str) -> Option:
    """Return an option of a method's part; its module is imported where it has not been.

    Raises:
        LookupError: there is none.
    """
    if name not in OPTIONS.get(group, {}) and (module := _options().get((group, name))):
        import_module(module)
    return OPTIONS[group][name]


def find_recipe(name: str) -> Recipe:
    """Return the method of a name; its module is imported where it has not been.

    Raises:
        LookupError: there is none.
    """
    if name not in RECIPES and (module := recipe_modules().get(name)):
        import_module(module)
    return RECIPES[name]


def option_names(group: str) -> list[str]:
    """Words that a group takes."""
    return sorted({*OPTIONS.get(group, ()), *(name for each, name in _options() if each == group)})


def recipe_names() -> list[str]:
    """Names of all methods."""
    return sorted({*RECIPES, *recipe_modules()})


@cache
def _sources() -> dict[str, str]:
    """Text by module. Hidden files are left out: editors put those next to an open file."""
    files = [file for file in sorted(METHODS.rglob("[!.]*.py")) if file.is_file()]
    names = (".".join(["ada_lightning", "methods", *file.relative_to(METHODS).with_suffix("").parts]) for file in files)
    return {name: file.read_text("utf-8") for name, file in zip(names, files, strict=True)}


@cache
def _options() -> dict[tuple[str, str], str]:
    return {
        (found["group"], found["name"]): module
        for module, text in _sources().items()
        for found in _OPTION.finditer(text)
    }


@cache
def recipe_modules() -> dict[str, str]:
    """Return the module of each method of the package by its name, in the order of the files."""
    return {found["name"]: module for module, text in _sources().items() for found in _RECIPE.finditer(text)}
