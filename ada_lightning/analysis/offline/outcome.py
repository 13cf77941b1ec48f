"""What a prompt's stored responses count as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd
import pyarrow as pa

COLUMNS = ("position", "prompt_id", "task", "reward", "failure", "is_truncated", "num_tokens")
"""Of stored responses, that counting needs."""


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
            A row for each ``position``, with ``prompt_id`` and ``task``; ``num_samples`` drawn, ``num_tokens`` and
            ``num_truncated`` of all of them; ``num_counted`` that are evidence about the pass rate and ``num_positive``
            of those; ``pass_rate`` and ``mean_reward`` over those, not a number without any; ``failures``: why graders
            failed, once for each response they failed on.
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
