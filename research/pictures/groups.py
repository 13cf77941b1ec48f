"""The first picture of README: four prompts, GRPO's groups of fixed size next to groups of adaptive size.

Both halves are drawn by the product's samplers from coin flips of known pass rates, and each response has the same seed
in both. Of the seeds 0, 1, 2, ... the first is shown at which both draw equally many responses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from ada_lightning.core.protocols import Sampler, Selection
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.sampling import PositiveSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from research.drive import collect_scripted, scripted_prompts
from research.pictures.svg import LIGHT, Drawing, Palette, Use

PROMPTS = {"very hard": 0.04, "hard": 0.15, "medium": 0.5, "solved": 1.0}
"""Pass rates."""
FIXED_SIZE = 8
PER_LINE = 10
"""Most responses next to each other."""
WIDTH, LEFT, MIDDLE = 616, 98, 338
SQUARE, GAP = 22, 4


@dataclass(frozen=True)
class Half:
    """What a sampler drew for the prompts, and what of it trains."""

    title: str
    rule: str
    """What the sampler does, in a few words."""
    groups: tuple[ResponseGroup, ...]

    def uses(self, group: ResponseGroup) -> list[Use]:
        """Return what becomes of each response of a group, in the order drawn."""
        trained = {kept.response.sample_index for kept in group.trained}
        unused = Use.SURPLUS if group.has_signal else Use.WASTED
        return [Use.TRAINS if response.sample_index in trained else unused for response in group.pool.responses]

    def number(self, use: Use) -> int:
        """Return how many responses have this use."""
        return Counter(found for group in self.groups for found in self.uses(group))[use]

    @property
    def num_drawn(self) -> int:
        """Responses of all prompts."""
        return sum(group.pool.num_drawn for group in self.groups)

    @property
    def num_with_signal(self) -> int:
        """Prompts whose rewards differ."""
        return sum(group.has_signal for group in self.groups)


def halves() -> tuple[Half, Half]:
    """Return both, of the first seed at which they draw equally many responses."""
    for seed in count():
        fixed = Half(
            "GRPO: fixed groups",
            f"{FIXED_SIZE} responses for each",
            _sample(UniformSampler(group_size=FIXED_SIZE), seed),
        )
        adaptive = Half(
            "Adaptive groups",
            "blocks of 4 until one is right",
            _sample(PositiveSampler(), seed, BalancedSelection(group_size=4)),
        )
        if fixed.num_drawn == adaptive.num_drawn:
            return fixed, adaptive
    raise AssertionError("count() never ends")


def draw(palette: Palette = LIGHT) -> str:
    """Return the picture as SVG."""
    shown = halves()
    alt = (
        f"Four prompts, from very hard to solved, and {shown[0].num_drawn} responses drawn for them in two ways. "
        + ". ".join(
            f"{half.title}, {half.rule}: {half.num_with_signal} prompts have a signal, {half.number(Use.TRAINS)} "
            f"responses train, {half.number(Use.WASTED)} are wasted"
            for half in shown
        )
    )
    lines = [max(-(-group.pool.num_drawn // PER_LINE) for group in pair) for pair in _pairs(shown)]
    rows = [76 + sum(lines[:row]) * (SQUARE + GAP) + 14 * row for row in range(len(lines) + 1)]
    drawing = Drawing(WIDTH, rows[-1] + 142, alt, palette)
    for left, half in zip((LEFT, MIDDLE), shown, strict=True):
        drawing.text(left, 30, half.title, size=20, is_bold=True)
        drawing.text(left, 52, half.rule, size=16, color=palette.faint)
        for top, group in zip(rows, half.groups, strict=False):
            _draw_group(drawing, left, top, group, half.uses(group))
    for top, (name, rate) in zip(rows, PROMPTS.items(), strict=False):
        drawing.text(12, top + 11, name, size=16, is_bold=True)
        drawing.text(12, top + 28, f"p = {rate:g}", size=14, color=palette.faint)
    _draw_counts(drawing, shown, rows[-1] + 8)
    return drawing.svg()


def _sample(sampler: Sampler, seed: int, selection: Selection | None = None) -> tuple[ResponseGroup, ...]:
    prompts = scripted_prompts(len(PROMPTS))
    groups, _ = collect_scripted(
        prompts, list(PROMPTS.values()), sampler, selection=selection or AllSelection(), seed=seed
    )
    return groups


def _pairs(shown: tuple[Half, Half]) -> list[tuple[ResponseGroup, ResponseGroup]]:
    return list(zip(shown[0].groups, shown[1].groups, strict=True))


def _draw_group(drawing: Drawing, left: float, top: float, group: ResponseGroup, uses: Sequence[Use]) -> None:
    for index, (response, use) in enumerate(zip(group.pool.responses, uses, strict=True)):
        line, column = divmod(index, PER_LINE)
        x, y = left + column * (SQUARE + GAP), top + line * (SQUARE + GAP)
        drawing.response(x, y, SQUARE, is_right=response.is_positive, use=use)


def _draw_counts(drawing: Drawing, shown: tuple[Half, Half], top: float) -> None:
    """Write a line for each use, which is the legend too."""
    drawing.line([(12, top - 8), (WIDTH - 12, top - 8)], color=drawing.palette.grey, width=1)
    names = {Use.TRAINS: "of {} train", Use.WASTED: "wasted: equal rewards", Use.SURPLUS: "surplus: drawn, not trained"}
    for left, half in zip((LEFT, MIDDLE), shown, strict=True):
        y = top + 16.0
        for use, name in names.items():
            if number := half.number(use):
                drawing.response(left, y - 14, 18, is_right=True, use=use)
                drawing.text(left + 25, y, f"{number} {name.format(half.num_drawn)}", size=16)
                y += 26
        drawing.text(
            left, top + 96, f"signal in {half.num_with_signal} of {len(PROMPTS)} prompts", size=16, is_bold=True
        )
    drawing.text(
        12,
        top + 122,
        "p: pass rate. A tick is a right response, a cross a wrong one.",
        size=14,
        color=drawing.palette.faint,
    )
