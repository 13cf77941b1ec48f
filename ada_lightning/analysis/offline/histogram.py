"""How many prompts have how many positives: in numbers, for the terminal, and as a picture."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from ada_lightning.analysis.picture import picture

_MAX_BINS = 17
_BAR_CHARS = 40


def bins(outcomes: pd.DataFrame, num_samples: int) -> pd.DataFrame:
    """Sort prompts by their number of positives: one bin a number, or a few numbers where there are many.

    None and all of them have bins of their own: those prompts teach nothing. Prompts without evidence are left out.

    Args:
        outcomes: of every prompt, with ``is_selected``.
        num_samples: responses per prompt.

    Returns:
        ``num_prompts``, ``num_selected``, ``mean_tokens`` and ``truncated_ratio`` of their responses, by the numbers of
        positives as text.
    """
    width = max(1, -(-(num_samples - 1) // (_MAX_BINS - 2)))
    edges = [0, *range(1, num_samples, width), num_samples, num_samples + 1]
    labels = [str(low) if after == low + 1 else f"{low}-{after - 1}" for low, after in pairwise(edges)]
    evident = outcomes[outcomes.num_counted > 0]
    sums = (
        evident.assign(num_prompts=1)
        .groupby(pd.cut(evident.num_positive, edges, right=False, labels=labels), observed=False)
        .sum(numeric_only=True)
    )
    num_responses = sums.num_samples.clip(lower=1)
    return pd.DataFrame(
        {
            "num_prompts": sums.num_prompts,
            "num_selected": sums.is_selected.astype(int),
            "mean_tokens": sums.num_tokens / num_responses,
            "truncated_ratio": sums.num_truncated / num_responses,
        }
    )


def histogram_lines(histogram: pd.DataFrame) -> list[str]:
    """Draw the bins with characters, selected prompts as ``#``, others as ``-``."""
    most = max(1, histogram.num_prompts.max())
    lines = [f"  {'positive':>8}{'prompts':>9}{'selected':>10}"]
    for bar in histogram.itertuples():
        num_chars = -(-bar.num_prompts * _BAR_CHARS // most)
        num_marked = -(-num_chars * bar.num_selected // max(bar.num_prompts, 1))
        marks = "#" * num_marked + "-" * (num_chars - num_marked)
        lines.append(f"  {bar.Index:>8}{bar.num_prompts:>9}{bar.num_selected:>10}  {marks}".rstrip())
    return lines


def plot_pass_rates(histogram: pd.DataFrame, target: Path, *, title: str, num_samples: int) -> None:
    """Draw the prompts of :func:`bins` by their number of positives, and below how long their responses are."""
    with picture(target, title=title, size=(9, 7)) as figure:
        prompts, lengths = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        places = np.arange(len(histogram))
        counts, selected = histogram.num_prompts, histogram.num_selected
        left_out = counts - selected
        prompts.bar(places, selected, label=f"selected ({selected.sum()})", color="tab:blue")
        prompts.bar(places, left_out, bottom=selected, label=f"left out ({left_out.sum()})", color="lightgray")
        drawn = places[counts > 0]
        for place in drawn:
            count = counts.iloc[place]
            prompts.annotate(str(count), (place, count), ha="center", va="bottom", fontsize=8)
        prompts.set_ylabel("prompts")
        prompts.set_ylim(0, 1.1 * max(1, counts.max()))
        prompts.yaxis.get_major_locator().set_params(integer=True)
        prompts.legend(fontsize=8)
        lengths.plot(drawn, histogram.mean_tokens.iloc[drawn], marker="o", color="tab:blue")
        lengths.set_ylabel("tokens per response", color="tab:blue")
        lengths.set_ylim(bottom=0)
        ratios = lengths.twinx()
        ratios.plot(drawn, histogram.truncated_ratio.iloc[drawn], marker="s", color="tab:red")
        ratios.set_ylabel("share cut by the length limit", color="tab:red")
        ratios.set_ylim(-0.02, 1.02)
        lengths.set_xticks(places, list(histogram.index), fontsize=8)
        lengths.set_xlabel(f"positive responses of {num_samples}")
        for axes in (prompts, lengths):
            axes.grid(alpha=0.3, axis="y")
