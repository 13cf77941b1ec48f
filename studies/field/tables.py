"""The tables of ``docs/studies/cost_benefit.md``, from the results of the runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from benchmarks.markdown import markdown
from studies.field.place import TUNING
from studies.field.reach import final_level


def tuning() -> str:
    """Return the level of every method by learning rate and prompts per step; the best of each in bold."""
    levels: dict[str, dict[tuple[float, int], float]] = {}
    for row in map(json.loads, TUNING.read_text(encoding="utf-8").splitlines()):
        rest, prompts, _ = row["name"].rsplit("-", 2)  # grpo_n4-lr3e-05-p8-100
        method, lr = rest.split("-lr")
        levels.setdefault(method, {})[float(lr), int(prompts[1:])] = final_level([row["curve"]])
    settings = sorted({key for found in levels.values() for key in found})
    head = ["method", *(f"lr {lr:g}, {prompts} prompts" for lr, prompts in settings)]
    ordered = sorted(levels.items(), key=lambda item: -max(item[1].values()))
    return markdown(head, [[f"`{method}`", *(_cell(found, key) for key in settings)] for method, found in ordered])


def _cell(found: Mapping[tuple[float, int], float], key: tuple[float, int]) -> str:
    if key not in found:
        return "-"
    text = f"{found[key]:.3f}"
    return f"**{text}**" if found[key] == max(found.values()) else text


TABLES: Mapping[str, Callable[[], str]] = {"field_tuning": tuning}
