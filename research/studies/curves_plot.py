"""Learning curves as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from research import plotting
from research.studies.curves import TOKENS, Floats, Runs, mean_curve
from research.studies.methods import GRPO

_AXES = {
    "generated_tokens": ("generated tokens, thousands", 1000),
    "trained_tokens": ("trained tokens, thousands", 1000),
    "seconds": ("seconds of rollout and update", 1),
}


def plot(found: Mapping[str, Runs], path: Path, *, shown: Sequence[str], costs: Sequence[str], rate: str) -> None:
    """Draw mean learning curves of what ``rate`` names, by each cost; GRPO is black, those not shown are grey.

    Bands are one standard error of what differs between methods: a seed, which decides how hard the held-out problems
    are, lifts or lowers all methods alike, and that is taken off (Cousineau 2005).
    """
    palette = iter(("#1f6f8b", "#c8553d", "#6b8f3a", "#7a5195", "#d99a2b"))
    dashes = iter(("-", "--", ":", "-."))
    colors = {method: "#222222" if method in GRPO else next(palette) for method in shown}
    styles = {method: next(dashes) if method in GRPO else "-" for method in shown}
    ordered = [*(method for method in found if method not in colors), *(method for method in shown if method in found)]
    luck = seed_luck(found)
    figure, panels = plotting.panels(1, len(costs), figsize=(5.2 * len(costs), 4.2), sharey=True)
    for panel, cost in zip(panels, costs, strict=True):
        label, scale = _AXES[cost]
        for method in ordered:
            runs = found[method]
            grid_G, rates_RG = mean_curve(list(runs.values()), cost)
            mean_G = rates_RG.mean(0)
            if method not in colors:
                panel.plot(grid_G / scale, mean_G, color="#c4c4c4", linewidth=1, zorder=1)
                continue
            own_RG = rates_RG - np.array([luck[seed] for seed in runs])
            error_G = own_RG.std(0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else 0 * mean_G
            panel.plot(
                grid_G / scale, mean_G, styles[method], color=colors[method], linewidth=2.2, label=method, zorder=3
            )
            panel.fill_between(
                grid_G / scale, mean_G - error_G, mean_G + error_G, color=colors[method], alpha=0.18, linewidth=0
            )
        panel.set_xlabel(label)
        panel.grid(alpha=0.25)
    panels[0].set_ylabel(rate)
    panels[0].legend(frameon=False, loc="lower right")
    plotting.save(figure, path, 150)


def seed_luck(found: Mapping[str, Runs]) -> dict[int, Floats]:
    """Return what each seed adds to the held-out rate at equal shares of the runs, mean over methods.

    Returns:
        By seed, on the grid of :func:`~research.studies.curves.mean_curve`. Shape ``(G,)``.
    """
    above: dict[int, list[Floats]] = {}
    for runs in found.values():
        _, rates_RG = mean_curve(list(runs.values()), TOKENS)
        for seed, rate_G in zip(runs, rates_RG - rates_RG.mean(0), strict=True):
            above.setdefault(seed, []).append(rate_G)
    return {seed: np.mean(rows, axis=0) for seed, rows in above.items()}
