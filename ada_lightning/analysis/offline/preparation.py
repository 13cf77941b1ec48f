"""Turns stored responses into pass rates, a selection of prompts, and the files that a run trains on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.analysis.offline.band import PassRateBand
from ada_lightning.analysis.offline.histogram import Bin, bins, histogram_lines, plot_pass_rates
from ada_lightning.analysis.offline.outcome import COLUMNS, OutcomeRule, PromptOutcome, history_of
from ada_lightning.analysis.offline.response_store import ResponseStore
from ada_lightning.analysis.offline.selected_prompts import write_jsonl, write_prompts
from ada_lightning.core.records import Prompt
from ada_lightning.methods.estimators.history_file import write_history


@dataclass(frozen=True, slots=True)
class Preparation:
    """What came of a finished sampling job."""

    num_samples: int
    outcomes: list[PromptOutcome]
    selected: frozenset[int]
    """Positions."""
    histogram: list[Bin]
    has_jsonl: bool
    """Whether the selected prompts could be written as JSON lines."""

    def failures(self) -> dict[str, int]:
        """Responses that could not be graded, by reason, most frequent first."""
        return dict(Counter(reason for outcome in self.outcomes for reason in outcome.failures).most_common())

    def summary(self) -> dict[str, Any]:
        """Counts for ``summary.json``."""
        num_responses = sum(outcome.num_samples for outcome in self.outcomes)
        rates = [outcome.pass_rate for outcome in self.outcomes if outcome.pass_rate is not None]
        return {
            "num_prompts": len(self.outcomes),
            "num_samples": self.num_samples,
            "num_responses": num_responses,
            "generated_tokens": sum(outcome.num_tokens for outcome in self.outcomes),
            "truncated_ratio": sum(outcome.num_truncated for outcome in self.outcomes) / num_responses,
            "num_failed": sum(self.failures().values()),
            "failures": self.failures(),
            "num_prompts_without_evidence": len(self.outcomes) - len(rates),
            "mean_pass_rate": sum(rates) / len(rates) if rates else None,
            "num_never_positive": sum(rate == 0 for rate in rates),
            "num_always_positive": sum(rate == 1 for rate in rates),
            "num_selected": len(self.selected),
            "prompts_by_positives": {bar.label: bar.num_prompts for bar in self.histogram},
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

    Args:
        store: of a finished job.
        prompts: the whole list of the job.
        num_samples: responses per prompt.
        rule: what a response counts as.
        band: which prompts are selected.
    """
    outcomes = rule.outcomes(store.table(COLUMNS))
    selected = frozenset(outcome.position for outcome in outcomes if band.keeps(outcome))
    histogram = bins(outcomes, selected, num_samples)
    write_prompts(store.folder, prompts, outcomes, selected)
    write_history(store.folder / "history.json", history_of(outcomes))
    plot_pass_rates(
        histogram,
        store.folder / "pass_rates.png",
        title=f"{store.folder.name}: {len(selected)} of {len(outcomes)} prompts ({band.describe()})",
        num_samples=num_samples,
    )
    has_jsonl = write_jsonl(store.folder / "selected.jsonl", prompts, outcomes, selected)
    return Preparation(num_samples, outcomes, selected, histogram, has_jsonl)
