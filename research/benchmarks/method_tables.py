"""The tables of ``docs/methods.md`` and ``docs/methods_checked.md``, made from what every recipe says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ada_lightning.methods.find import find_recipe, recipe_modules
from ada_lightning.methods.recipe import Recipe
from research.benchmarks.report import markdown

DASH = chr(0x2013)
"""Stands in a cell that has nothing to say."""
COST = {"responses": "responses per prompt"}
"""Heading of the column of costs, where it is not that."""


def shipped() -> list[Recipe]:
    """Every recipe: the project's own first, then those of papers; each file's in its order."""
    by_file = recipe_modules()
    names = sorted(by_file, key=lambda name: (not by_file[name].endswith(".recipes"), by_file[name]))
    return [find_recipe(name) for name in names]


def methods(table: str) -> str:
    """What each method of a table changes, needs and costs."""
    heads = ["experiment", "what it changes", "what it needs", COST.get(table, "cost"), "fidelity", "where it departs"]
    cards = [(each, each.card) for each in shipped() if each.card is not None and each.card.table == table]
    shared = {name for _, card in cards for name in card.also}
    rows = []
    for each, card in cards:
        if each.name not in shared:
            cells = (card.changes, card.needs, card.cost, card.fidelity, card.departs)
            rows.append([_names(each, card.also), *(DASH if cell == "-" else cell for cell in cells)])
    return markdown(heads, rows)


def checked() -> str:
    """What each method's rule is compared with, and by which test."""
    found = [(each, each.checked) for each in shipped() if each.checked is not None]
    shared = {name for _, said in found for name in said.also}
    rows = [
        [_names(each, said.also), said.rule, said.against, f"`{said.test}`"]
        for each, said in found
        if each.name not in shared
    ]
    return markdown(["experiments", "the rule", "compared with", "by"], rows)


def _names(recipe: Recipe, also: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in (recipe.name, *also))


TABLES: dict[str, Callable[[], str]] = {
    **{f"methods_{table}": partial(methods, table) for table in ("responses", "prompts", "training", "update")},
    "methods_checked": checked,
}
