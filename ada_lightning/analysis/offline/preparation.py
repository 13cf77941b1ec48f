"""Turns stored responses into pass rates, a selection of prompts, and the files that a run trains on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ada_lightning.analysis.offline.band import PassRateBand
from ada_lightning.analysis.offline.response_store import ResponseStore, prompt_text
from ada_lightning.analysis.picture import picture
from ada_lightning.core.records import Prompt
from ada_lightning.data.layouts import TEMPLATE_ARGUMENTS
from ada_lightning.methods.estimators.history_file import write_history
from ada_lightning.run.files import replacing

_MAX_BINS = 17
_BAR_CHARS = 40
PROMPTS_SCHEMA = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("position", pa.int64()),
        ("task", pa.string()),
        ("prompt", pa.large_string()),
        ("answer", pa.string()),
        ("columns", pa.large_string()),
        ("num_samples", pa.int64()),
        ("num_counted", pa.int64()),
        ("num_positive", pa.int64()),
        ("num_failed", pa.int64()),
        ("pass_rate", pa.float64()),
        ("mean_reward", pa.float64()),
        ("mean_tokens", pa.float64()),
        ("truncated_ratio", pa.float64()),
        ("is_selected", pa.bool_()),
    ]
)
"""One row per prompt. ``prompt``: the turns as ``role: content`` lines. ``answer``: text, or JSON of something else.
``columns``: JSON of the data set's other columns, null where the source has none. ``pass_rate`` and ``mean_reward``:
over ``num_counted`` responses, null without any."""
COLUMNS = ("position", "prompt_id", "task", "reward", "failure", "is_truncated", "num_tokens")
"""Of stored responses, that counting needs."""


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


def write_prompts(folder: Path, prompts: Sequence[Prompt], outcomes: pd.DataFrame) -> None:
    """Write ``prompts.parquet``, and its selected rows to ``selected.parquet`` (what ``data.only`` reads)."""
    asked = [prompts[position] for position in outcomes.position]
    described = outcomes.assign(
        prompt=[prompt_text(prompt.messages) for prompt in asked],
        answer=[_as_text(prompt.reference.get("answer")) for prompt in asked],
        columns=[_as_json(prompt.reference.get("columns")) for prompt in asked],
        num_failed=[len(reasons) for reasons in outcomes.failures],
        mean_tokens=outcomes.num_tokens / outcomes.num_samples,
        truncated_ratio=outcomes.num_truncated / outcomes.num_samples,
    )
    table = pa.Table.from_pandas(described, schema=PROMPTS_SCHEMA, preserve_index=False).replace_schema_metadata()
    for name, part in (("prompts", table), ("selected", table.filter(table["is_selected"]))):
        with replacing(folder / f"{name}.parquet") as temporary:
            pq.write_table(part, temporary, compression="zstd")


def write_jsonl(target: Path, prompts: Sequence[Prompt], outcomes: pd.DataFrame) -> None:
    """Write the selected prompts as JSON lines for ``data=jsonl``: prompt, answer, the data's own columns, counts.

    ``prompt`` is what the model was asked, template and system prompt included: text, or messages where there is more
    than the user's turn. So neither may be set again by the run that trains on it.

    Where the reward needs more of a prompt than columns can hold (procedural tasks with a verifier of their own) there
    is no file afterwards, and ``data.only`` is the way.
    """
    chosen = [(prompts[row.position], row) for row in outcomes[outcomes.is_selected].itertuples()]
    if any(set(prompt.reference) - {"answer", "columns"} for prompt, _ in chosen):
        target.unlink(missing_ok=True)
        return
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8") as file:
        for prompt, outcome in chosen:
            file.write(json.dumps(_line(prompt, outcome), ensure_ascii=False) + "\n")


def _line(prompt: Prompt, outcome: Any) -> dict[str, Any]:
    messages = [dict(message) for message in prompt.messages]
    is_text = len(messages) == 1 and messages[0]["role"] == "user"
    answer = {"answer": prompt.reference["answer"]} if "answer" in prompt.reference else {}
    arguments = {TEMPLATE_ARGUMENTS: dict(prompt.template_arguments)} if prompt.template_arguments else {}
    return {
        **prompt.reference.get("columns", {}),
        **answer,
        **arguments,
        "prompt": messages[0]["content"] if is_text else messages,
        "prompt_id": prompt.prompt_id,
        "num_samples": outcome.num_samples,
        "num_positive": outcome.num_positive,
        "pass_rate": outcome.pass_rate,
    }


def _as_text(answer: Any) -> str | None:
    return answer if isinstance(answer, str) else _as_json(answer)


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class OutcomeRule:
    """The rule by which a training run with the same settings would count each response; see ``StepSettings``.

    Stored responses hold what happened, so another rule needs no new ones.
    """

    positive_threshold: float
    truncated: Literal["grade", "zero", "exclude", "mask"]
    grader_failure: Literal["exclude", "as_zero"]

    def outcomes(self, table: pa.Table) -> pd.DataFrame:
        """Count every prompt.

        Args:
            table: responses in the order of their positions, as :meth:`ResponseStore.table` returns them.

        Returns:
            A row for each ``position``, with ``prompt_id`` and ``task``. ``num_samples``, ``num_tokens`` and
            ``num_truncated`` count all drawn responses. ``num_counted`` are evidence about the pass rate,
            ``num_positive`` of them right. ``pass_rate`` and ``mean_reward`` are over those; not a number without any.
            ``failures``: why graders failed, once for each response they failed on.
        """
        rows = table.select(COLUMNS).to_pandas()
        # A truncated response may count as something whatever a grader says.
        is_settled = rows.is_truncated & (self.truncated in ("zero", "exclude"))
        graded = rows.reward.fillna(0.0) if self.grader_failure == "as_zero" else rows.reward
        reward = graded.mask(is_settled, 0.0 if self.truncated == "zero" else float("nan"))
        counted = rows.assign(
            reward=reward, is_positive=reward > self.positive_threshold, failure=rows.failure.mask(is_settled, "")
        )
        found = counted.groupby("position", as_index=False).agg(
            prompt_id=("prompt_id", "first"),
            task=("task", "first"),
            num_samples=("reward", "size"),
            num_counted=("reward", "count"),
            num_positive=("is_positive", "sum"),
            failures=("failure", lambda of_prompt: tuple(filter(None, of_prompt))),
            mean_reward=("reward", "mean"),
            num_tokens=("num_tokens", "sum"),
            num_truncated=("is_truncated", "sum"),
        )
        return found.assign(pass_rate=found.num_positive / found.num_counted)


def history_of(outcomes: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """(positives, counted responses) by prompt id, as estimators start from; prompts without evidence are left out."""
    evident = outcomes[outcomes.num_counted > 0]
    counts = evident.groupby("prompt_id", sort=False)[["num_positive", "num_counted"]].sum().astype(float)
    return {row.Index: (row.num_positive, row.num_counted) for row in counts.itertuples()}
