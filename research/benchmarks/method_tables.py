"""What ``docs/methods.md`` and the two pages behind it say of each method, made from its recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ada_lightning.methods.find import find_recipe, recipe_modules
from ada_lightning.methods.recipe import Card, Recipe
from research.benchmarks.report import markdown

NOTHING = "-"
"""A recipe's field that has nothing to say."""
DASH = chr(0x2013)
"""Stands in its cell."""
COST = {"responses": "responses per prompt"}
"""Heading of the column of costs, where it is not that."""
FAMILIES = ("responses", "prompts", "training", "update")
"""Parts of ``docs/methods.md``, each with a table."""
KINDS = ("brute force", "enumeration", "simulation", "their loop, rewritten", "by hand", "nothing")
"""What a rule can be compared with, as ``docs/methods_checked.md`` explains it."""


def shipped() -> list[Recipe]:
    """Every recipe: the project's own first, then those of papers; each file's in its order."""
    by_file = recipe_modules()
    names = sorted(by_file, key=lambda name: (not by_file[name].endswith(".recipes"), by_file[name]))
    return [find_recipe(name) for name in names]


def methods(family: str) -> str:
    """The table of a family: what each method changes and costs; its fidelity links what it needs and departs in."""
    rows = []
    for names, card in _cards(family):
        cost = DASH if card.cost == NOTHING else card.cost
        rows.append([_code(names), card.changes, cost, f"[{card.fidelity}](departures.md#{anchor(names)})"])
    return markdown(["experiment", "what it changes", COST.get(family, "cost"), "fidelity"], rows)


def departures(family: str) -> str:
    """A section for each method of a family: what it needs, and where it departs from its source."""
    sections = []
    for names, card in _cards(family):
        needs = "" if card.needs == NOTHING else f"*Needs* {card.needs}."
        departs = "" if card.departs == NOTHING else card.departs
        sections.append("\n\n".join(filter(None, (f"### {', '.join(names)}", needs, departs))) + "\n")
    return "\n".join(["", *sections, ""])


def checked(kind: str) -> str:
    """The methods whose rule is compared with one kind of truth: what is compared, and by which test."""
    found = [(each.name, each.checked) for each in shipped() if each.checked is not None]
    shared = {name for _, said in found for name in said.also}
    items = [
        f"- {_code((name, *said.also))}: {said.rule}. Test: `{said.test}`"
        for name, said in found
        if said.against == kind and name not in shared
    ]
    return "\n".join(["", *items, ""]) + "\n"


def anchor(names: Sequence[str]) -> str:
    """Return where a section of ``docs/departures.md`` stands.

    Example:
        >>> anchor(("cppo", "cppo_batch"))
        'cppo-cppo_batch'
    """
    return "-".join(names)


def _cards(family: str) -> list[tuple[tuple[str, ...], Card]]:
    """Each card of a family with the names of the methods that it is about."""
    found = [(each.name, each.card) for each in shipped() if each.card is not None and each.card.table == family]
    shared = {name for _, card in found for name in card.also}
    return [((name, *card.also), card) for name, card in found if name not in shared]


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


TABLES: dict[str, Callable[[], str]] = {
    **{f"methods_{family}": partial(methods, family) for family in FAMILIES},
    **{f"departures_{family}": partial(departures, family) for family in FAMILIES},
    **{f"checked_{kind.replace(', ', '_').replace(' ', '_')}": partial(checked, kind) for kind in KINDS},
}
