"""How many prompts have how many positives: in numbers, for the terminal, and as a picture."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ada_lightning.analysis.offline.outcome import PromptOutcome
from ada_lightning.analysis.picture import picture

_MAX_BINS = 17
_BAR_CHARS = 40


@dataclass(frozen=True, slots=True)
class Bin:
    """Prompts whose positives lie between two counts, both included."""

    low: int
    high: int
    num_prompts: int
    num_selected: int
    mean_tokens: float
    """Of their responses; 0 where there are none."""
    truncated_ratio: float

    @property
    def label(self) -> str:
        """The counts, spelled."""
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


def bins(outcomes: Sequence[PromptOutcome], selected: Collection[int], num_samples: int) -> list[Bin]:
    """Sort prompts by their number of positives: one bin a number, or a few numbers where there are many.

    None and all of them have bins of their own: those prompts teach nothing. Prompts without evidence are left out.

    Args:
        outcomes: of every prompt.
        selected: positions.
        num_samples: responses per prompt.
    """
    width = max(1, -(-(num_samples - 1) // (_MAX_BINS - 2)))
    edges = [0, *range(1, num_samples, width), num_samples, num_samples + 1]
    made = []
    for low, after in pairwise(edges):
        inside = [outcome for outcome in outcomes if outcome.num_counted and low <= outcome.num_positive < after]
        num_responses = max(sum(outcome.num_samples for outcome in inside), 1)
        made.append(
            Bin(
                low=low,
                high=after - 1,
                num_prompts=len(inside),
                num_selected=sum(outcome.position in selected for outcome in inside),
                mean_tokens=sum(outcome.num_tokens for outcome in inside) / num_responses,
                truncated_ratio=sum(outcome.num_truncated for outcome in inside) / num_responses,
            )
        )
    return made


def histogram_lines(histogram: Sequence[Bin]) -> list[str]:
    """Draw the bins with characters, selected prompts as ``#``, others as ``-``."""
    most = max(1, *(bar.num_prompts for bar in histogram))
    lines = [f"  {'positive':>8}{'prompts':>9}{'selected':>10}"]
    for bar in histogram:
        num_chars = -(-bar.num_prompts * _BAR_CHARS // most)
        num_marked = -(-num_chars * bar.num_selected // max(bar.num_prompts, 1))
        marks = "#" * num_marked + "-" * (num_chars - num_marked)
        lines.append(f"  {bar.label:>8}{bar.num_prompts:>9}{bar.num_selected:>10}  {marks}".rstrip())
    return lines


def plot_pass_rates(histogram: Sequence[Bin], target: Path, *, title: str, num_samples: int) -> None:
    """Draw the prompts by their number of positives, and below how long their responses are.

    Args:
        histogram: as :func:`bins` returns it.
        target: a PNG file; replaced whole.
        title: stands above the plots.
        num_samples: responses per prompt.
    """
    with picture(target, title=title, size=(9, 7)) as figure:
        prompts, lengths = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        places = list(range(len(histogram)))
        left_out = [bar.num_prompts - bar.num_selected for bar in histogram]
        selected = [bar.num_selected for bar in histogram]
        prompts.bar(places, selected, label=f"selected ({sum(selected)})", color="tab:blue")
        prompts.bar(places, left_out, bottom=selected, label=f"left out ({sum(left_out)})", color="lightgray")
        for place, bar in zip(places, histogram, strict=True):
            if bar.num_prompts:
                prompts.annotate(str(bar.num_prompts), (place, bar.num_prompts), ha="center", va="bottom", fontsize=8)
        prompts.set_ylabel("prompts")
        prompts.set_ylim(0, 1.1 * max(1, *(bar.num_prompts for bar in histogram)))
        prompts.yaxis.get_major_locator().set_params(integer=True)
        prompts.legend(fontsize=8)
        drawn = [place for place, bar in zip(places, histogram, strict=True) if bar.num_prompts]
        lengths.plot(drawn, [histogram[place].mean_tokens for place in drawn], marker="o", color="tab:blue")
        lengths.set_ylabel("tokens per response", color="tab:blue")
        lengths.set_ylim(bottom=0)
        ratios = lengths.twinx()
        ratios.plot(drawn, [histogram[place].truncated_ratio for place in drawn], marker="s", color="tab:red")
        ratios.set_ylabel("share cut by the length limit", color="tab:red")
        ratios.set_ylim(-0.02, 1.02)
        lengths.set_xticks(places, [bar.label for bar in histogram], fontsize=8)
        lengths.set_xlabel(f"positive responses of {num_samples}")
        for axes in (prompts, lengths):
            axes.grid(alpha=0.3, axis="y")
