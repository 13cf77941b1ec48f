"""What each advantage sees: one prompt, its responses in the order drawn, what trains and what the baseline is made of.

Responses are coin flips of one pass rate, drawn by the product's samplers with the same seeds in every row; advantages
are the product's. The seed is the first at which two blocks are drawn, the first of them with one right response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from ada_lightning.core.protocols import Advantage, Sampler, Selection
from ada_lightning.core.records import Belief, ResponseGroup
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    GroupNormalizedAdvantage,
    HistoryBaselineAdvantage,
    PoolMeanAdvantage,
)
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from research.drive import advantages, collect_scripted, scripted_prompts
from research.pictures.svg import Drawing, Use

PASS_RATE = 0.25
HISTORY = Belief(2.0, 6.0)
"""What is known before the step: worth eight responses, two of them right."""
WIDTH, TOP, ROW = 640, 78, 74
BEFORE, DRAWN, WEIGHTS = 164, 262, 510
SQUARE, GAP, SMALL = 25, 4, 14
MINUS = "\u2212"


@dataclass(frozen=True)
class View:
    """A row of the picture."""

    name: str
    baseline: str
    """What the baseline is, in a few words."""
    group: ResponseGroup
    advantage: Advantage
    before: str = ""
    """Whose responses of before the step count too; nobody's where it is empty."""
    sees_drawn: bool = True
    """Whether the baseline is a mean of what was drawn."""

    def weights(self) -> tuple[float, float]:
        """Return the advantage of a right response and of a wrong one."""
        values = advantages(self.advantage, [self.group])
        return float(values.max()), float(values.min())


def views() -> list[View]:
    """Return the rows."""
    seed = _seed()
    four = _group(UniformSampler(group_size=4), AllSelection(), seed)
    pool = _group(_balance(), BalancedSelection(group_size=4), seed)
    known = _group(UniformSampler(group_size=4), AllSelection(), seed, HISTORY)
    history = HistoryBaselineAdvantage()
    return [
        View("grpo", "mean of the group", four, GroupNormalizedAdvantage()),
        View("official", "mean of the pool", pool, PoolMeanAdvantage()),
        View("exact", "none: counts orders", pool, ExactAdvantage(), sees_drawn=False),
        View("ada", "history and the others", known, history, before="this prompt"),
        View("ada_similar", "the same, by words", known, history, before="similar prompts"),
    ]


def draw() -> str:
    """Return the picture as SVG."""
    shown = views()
    alt = (
        "The responses of one prompt in the order drawn, as five advantages see them. "
        "grpo draws four, trains on all and takes their mean as the baseline. "
        "official draws eight, trains on two right and two wrong ones and takes the mean of all eight. "
        "exact draws and trains on the same and has no baseline: it counts in how many orders the eight could come. "
        "ada draws four, trains on all and takes the baseline of each from earlier responses and the other three. "
        "ada_similar does the same with earlier responses to similar prompts."
    )
    drawing = Drawing(WIDTH, TOP + ROW * len(shown) + 34, alt)
    faint = drawing.palette.faint
    drawing.text(12, 26, "What each advantage sees of one prompt", size=18, is_bold=True)
    drawing.text(BEFORE, 58, "before", size=14, color=faint)
    drawing.text(DRAWN, 58, "drawn in this step, in order", size=14, color=faint)
    drawing.text(WEIGHTS, 58, "advantage", size=14, color=faint)
    for index, view in enumerate(shown):
        _draw_view(drawing, view, TOP + index * ROW)
    _draw_legend(drawing, TOP + ROW * len(shown) + 18)
    return drawing.svg()


def _balance() -> BalanceSampler:
    return BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)


def _seed() -> int:
    """Return the first seed whose pool has two blocks, the first with a signal."""
    for seed in count():
        group = _group(_balance(), BalancedSelection(group_size=4), seed)
        if group.pool.num_drawn == 8 and sum(group.pool.first_round_rewards) == 1:
            return seed
    raise AssertionError("count() never ends")


def _group(sampler: Sampler, selection: Selection, seed: int, belief: Belief | None = None) -> ResponseGroup:
    groups, _ = collect_scripted(
        scripted_prompts(1), [PASS_RATE], sampler, selection=selection, seed=seed, beliefs=[belief or Belief()]
    )
    return groups[0]


def _draw_view(drawing: Drawing, view: View, top: float) -> None:
    palette = drawing.palette
    drawing.line([(12, top - 10), (WIDTH - 12, top - 10)], color=palette.grey, width=1)
    drawing.text(12, top + 18, view.name, size=16, is_bold=True)
    drawing.text(12, top + 40, view.baseline, size=13, color=palette.faint)
    trained = {kept.response.sample_index for kept in view.group.trained}
    responses = view.group.pool.responses
    for index, response in enumerate(responses):
        use = Use.TRAINS if response.sample_index in trained else Use.SURPLUS
        drawing.response(DRAWN + index * (SQUARE + GAP), top + 2, SQUARE, is_right=response.is_positive, use=use)
    if view.sees_drawn:
        _underline(drawing, DRAWN, top + 36, len(responses) * (SQUARE + GAP) - GAP)
    if view.before:
        rights = [True] * round(HISTORY.alpha) + [False] * round(HISTORY.beta)
        _draw_before(drawing, rights, top)
        drawing.text(BEFORE, top + 54, view.before, size=12, color=palette.faint)
    right, wrong = view.weights()
    drawing.text(WEIGHTS, top + 18, f"right {right:+.2f}", size=15, color=palette.right, is_bold=True)
    drawing.text(
        WEIGHTS, top + 40, f"wrong {wrong:+.2f}".replace("-", MINUS), size=15, color=palette.wrong, is_bold=True
    )


def _draw_before(drawing: Drawing, rights: Sequence[bool], top: float) -> None:
    for index, is_right in enumerate(rights):
        line, column = divmod(index, 4)
        x, y = BEFORE + column * (SMALL + 3), top + line * (SMALL + 3)
        drawing.response(x, y, SMALL, is_right=is_right, use=Use.SURPLUS)
    _underline(drawing, BEFORE, top + 36, 4 * (SMALL + 3) - 3)


def _underline(drawing: Drawing, left: float, y: float, width: float) -> None:
    drawing.box(left, y, width, 4, fill=drawing.palette.blue, radius=2)


def _draw_legend(drawing: Drawing, y: float) -> None:
    drawing.response(12, y - 14, 18, is_right=True)
    drawing.text(36, y, "right, trains", size=14)
    drawing.response(136, y - 14, 18, is_right=False)
    drawing.text(160, y, "wrong, trains", size=14)
    drawing.response(268, y - 14, 18, is_right=False, use=Use.SURPLUS)
    drawing.text(292, y, "does not train", size=14)
    _underline(drawing, 402, y - 6, 30)
    drawing.text(438, y, "part of the baseline", size=14)
