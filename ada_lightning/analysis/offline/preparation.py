"""Turns stored responses into pass rates, a selection of prompts, and the files that a run trains on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ada_lightning.analysis.offline.band import PassRateBand
from ada_lightning.analysis.offline.histogram import bins, histogram_lines, plot_pass_rates
from ada_lightning.analysis.offline.outcome import COLUMNS, OutcomeRule, history_of
from ada_lightning.analysis.offline.response_store import ResponseStore
from ada_lightning.analysis.offline.selected_prompts import write_jsonl, write_prompts
from ada_lightning.core.records import Prompt
from ada_lightning.methods.estimators.history_file import write_history


@dataclass(frozen=True, slots=True)
class Preparation:
    """What came of a finished sampling job."""

    num_samples: int
    outcomes: pd.DataFrame
    """Of every prompt, with ``is_selected``."""
    histogram: pd.DataFrame

    @property
    def selected(self) -> list[int]:
        """Positions of the selected prompts."""
        return self.outcomes.position[self.outcomes.is_selected].tolist()

    def summary(self) -> dict[str, Any]:
        """Counts for ``summary.json``; reasons of failures most frequent first."""
        outcomes, rates = self.outcomes, self.outcomes.pass_rate.dropna()
        failures = dict(Counter(reason for reasons in outcomes.failures for reason in reasons).most_common())
        return {
            "num_prompts": len(outcomes),
            "num_samples": self.num_samples,
            "num_responses": int(outcomes.num_samples.sum()),
            "generated_tokens": int(outcomes.num_tokens.sum()),
            "truncated_ratio": float(outcomes.num_truncated.sum() / outcomes.num_samples.sum()),
            "num_failed": sum(failures.values()),
            "failures": failures,
            "num_prompts_without_evidence": len(outcomes) - len(rates),
            "mean_pass_rate": float(rates.mean()) if len(rates) else None,
            "num_never_positive": int((rates == 0).sum()),
            "num_always_positive": int((rates == 1).sum()),
            "num_selected": len(self.selected),
            "prompts_by_positives": self.histogram.num_prompts.to_dict(),
        }

    def lines(self, band: PassRateBand, failure_alarm_ratio: float) -> list[str]:
        """Tell the person at the terminal."""
        summary = self.summary()
        mean = "none" if summary["mean_pass_rate"] is None else f"{summary['mean_pass_rate']:.3f}"
        lines = [
            f"{summary['num_prompts']} prompts x {self.num_samples} responses, "
            f"{summary['generated_tokens'] / summary['num_responses']:.0f} tokens each, "
            f"{summary['truncated_ratio']:.0%} cut by the length limit, mean pass rate {mean}",
            *histogram_lines(self.histogram),
            f"selected: {summary['num_selected']} prompts ({band.describe()})",
        ]
        if num_failed := summary["num_failed"]:
            reasons = ", ".join(f"{reason} {count}" for reason, count in summary["failures"].items())
            is_alarming = num_failed / summary["num_responses"] > failure_alarm_ratio
            lines.append(
                f"{'warning: ' if is_alarming else ''}{num_failed} of {summary['num_responses']} responses could not "
                f"be graded ({reasons}){'; check the reward function' if is_alarming else ''}"
            )
        return lines


def prepare(
    store: ResponseStore,
    prompts: Sequence[Prompt],
    *,
    num_samples: int,
    rule: OutcomeRule,
    band: PassRateBand,
) -> Preparation:
    """Count, select, and write ``prompts.parquet``, ``selected.parquet``, ``selected.jsonl``, ``history.json``, plot.

    The store is that of a finished job, the prompts are its whole list, ``num_samples`` responses were drawn of each.
    """
    counted = rule.outcomes(store.table(COLUMNS))
    outcomes = counted.assign(is_selected=band.keeps(counted))
    histogram = bins(outcomes, num_samples)
    write_prompts(store.folder, prompts, outcomes)
    write_history(store.folder / "history.json", history_of(outcomes))
    plot_pass_rates(
        histogram,
        store.folder / "pass_rates.png",
        title=f"{store.folder.name}: {outcomes.is_selected.sum()} of {len(outcomes)} prompts ({band.describe()})",
        num_samples=num_samples,
    )
    write_jsonl(store.folder / "selected.jsonl", prompts, outcomes)
    return Preparation(num_samples, outcomes, histogram)
