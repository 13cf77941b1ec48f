"""Learning curves as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from research import plotting
from research.studies.curves import TOKENS, Floats, Runs, mean_curve, time_scale
from research.studies.methods import GRPO, written

AXES = {
    "generated_tokens": ("generated tokens, thousands", 1000),
    "trained_tokens": ("trained tokens, thousands", 1000),
    "seconds": ("seconds of rollouts and updates", 1),
}
_PALETTE = ("#1f6f8b", "#c8553d", "#6b8f3a", "#7a5195", "#d99a2b")
_BLACK, _DARK, _LIGHT = "#111111", "#777777", "#cccccc"
_ROOM = 1.12
"""A panel ends here, in costs of the longest curve that it is about: slower ones are cut off."""


@dataclass(frozen=True)
class Picture:
    """What a picture of learning curves says beside the curves."""

    title: str
    """Model with its size, prompts, number of seeds."""
    rate: str
    """What the curves are of."""
    shown: Sequence[str]
    """Methods in colour; the others are light grey."""
    costs: Sequence[str]
    """A panel for each."""
    comparator: Mapping[str, str]
    """By cost, the method that the others are compared with: black."""


def plot(found: Mapping[str, Runs], path: Path, picture: Picture) -> None:
    """Draw mean learning curves by each cost; what a panel compares with is black, other GRPO dashed.

    Bands are one standard error of what differs between methods: a seed, which decides how hard the held-out problems
    are, lifts or lowers all methods alike, and that is taken off (Cousineau 2005).
    """
    luck = seed_luck(found)
    figure, panels = plotting.panels(1, len(picture.costs), figsize=(5.2 * len(picture.costs), 4.6), sharey=True)
    for panel, cost in zip(panels, picture.costs, strict=True):
        _draw(panel, cost, found, picture, luck)
    panels[0].set_ylabel(picture.rate)
    figure.suptitle(picture.title, fontsize=11)
    plotting.save(figure, path, 150)


def _draw(panel: Any, cost: str, found: Mapping[str, Runs], picture: Picture, luck: Mapping[int, Floats]) -> None:
    label, scale = AXES[cost]
    plain = {*GRPO, *picture.comparator.values()}
    colors = dict(zip((name for name in picture.shown if name not in plain), _PALETTE, strict=False))
    base = picture.comparator[cost]
    lasts = []
    for method in sorted(found, key=lambda name: (name in picture.shown, name == base)):  # the last lies on top
        runs = found[method]
        cost_G, rates_RG = mean_curve(list(runs.values()), cost)
        x_G, mean_G = cost_G / scale, rates_RG.mean(0)
        if method not in picture.shown:
            panel.plot(x_G, mean_G, color=_LIGHT, linewidth=1, zorder=1)
            continue
        is_other_grpo = method not in colors and method != base
        color = _DARK if is_other_grpo else colors.get(method, _BLACK)
        name = f"compared with: {written(method)}" if method == base else written(method)
        panel.plot(
            x_G,
            mean_G,
            "--" if is_other_grpo else "-",
            color=color,
            linewidth=1.4 if is_other_grpo else 2.4,
            label=name,
            zorder=3,
        )
        own_RG = rates_RG - np.array([luck[seed] for seed in runs])
        error_G = own_RG.std(0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else 0 * mean_G
        panel.fill_between(x_G, mean_G - error_G, mean_G + error_G, color=color, alpha=0.16, linewidth=0)
        if not is_other_grpo:
            lasts.append(float(x_G[-1]))
    ends = [mean_curve(list(runs.values()), cost)[0][-1] / scale for runs in found.values()]
    if max(ends) > _ROOM * max(lasts):
        panel.set_xlim(-0.04 * max(lasts), _ROOM * max(lasts))
        panel.set_title(f"slower curves go on to {max(ends):.0f}", fontsize=9, loc="right")
    panel.set_xlabel(label)
    panel.grid(alpha=0.25)
    handles, names = panel.get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda at: (names[at] != f"compared with: {written(base)}", names[at]))
    panel.legend([handles[at] for at in order], [names[at] for at in order], loc="lower right", fontsize=8.5)


def plot_factor(
    base: Runs, other: Runs, cost: str, path: Path, *, names: tuple[str, str], rate: str, title: str
) -> None:
    """Draw what a factor along the whole curve is: two curves, and the second with its costs times the factor.

    Args:
        base: GRPO's runs.
        other: those of the other method.
        cost: on the horizontal axis.
        path: of the picture.
        names: of both.
        rate: what the curves are of.
        title: model with its size, and prompts.
    """
    factor = time_scale(base, other, cost).value
    label, scale = AXES[cost]
    curves = [mean_curve(list(runs.values()), cost) for runs in (base, other)]
    (base_G, base_rate_G), (other_G, other_rate_G) = ((x_G / scale, rates_RG.mean(0)) for x_G, rates_RG in curves)
    figure, panels = plotting.panels(1, 2, figsize=(10.4, 4.2), sharey=True)
    for panel, times in zip(panels, (1.0, factor), strict=True):
        panel.plot(base_G, base_rate_G, color=_BLACK, linewidth=2.4, label=names[0])
        panel.plot(
            [base_G[-1], factor * other_G[-1]], 2 * [base_rate_G[-1]], ":", color=_BLACK, label="its end goes on"
        )
        suffix = "" if times == 1 else f", costs times {factor:.2f}"
        panel.plot(times * other_G, other_rate_G, color=_PALETTE[0], linewidth=2.4, label=f"{names[1]}{suffix}")
        panel.set_xlabel(label)
        panel.grid(alpha=0.25)
        panel.legend(loc="lower right", fontsize=8.5)
    for level in base_rate_G[0] + np.array([0.4, 0.7, 1.0]) * (base_rate_G[-1] - base_rate_G[0]):
        near, far = np.interp(level, other_rate_G, other_G), np.interp(level, base_rate_G, base_G)
        panels[0].annotate("", (far, level), (near, level), arrowprops={"arrowstyle": "<->", "color": _PALETTE[1]})
        panels[0].annotate(
            f"{far:.0f} is {far / near:.1f} times {near:.0f}",
            (far, level),
            xytext=(8, -4 if level < base_rate_G[-1] else 6),
            textcoords="offset points",
            color=_PALETTE[1],
            fontsize=9,
        )
    panels[0].set_title("as measured, with the distance at three heights", fontsize=10)
    panels[1].set_title(f"the costs times {factor:.2f}: no other factor brings the curves nearer", fontsize=10)
    panels[0].set_ylabel(rate)
    figure.suptitle(title, fontsize=11)
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
