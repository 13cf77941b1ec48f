"""Write every picture: ``python -m research.pictures``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from research.benchmarks.report import DOCS
from research.pictures import bars, estimators, groups, lag, timeline
from research.pictures.svg import DARK, LIGHT

PICTURES: dict[str, Callable[[], str]] = {
    "assets/groups_light.svg": partial(groups.draw, LIGHT),
    "assets/groups_dark.svg": partial(groups.draw, DARK),
    "step.svg": timeline.draw,
    "assets/advantages.svg": estimators.draw,
    "assets/lag.svg": lag.draw,
    "gpu_memory.svg": bars.gpu_memory,
    "rollout_speed.svg": bars.rollout_speed,
}
"""How to draw each, by its path in ``docs``."""


def main() -> None:
    """Draw and write."""
    for name, draw in PICTURES.items():
        (DOCS / name).write_text(draw(), encoding="utf-8")
        print(DOCS / name)


if __name__ == "__main__":
    main()
