"""What a prompt's stored responses count as."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import pyarrow as pa

COLUMNS = ("position", "prompt_id", "task", "reward", "failure", "is_truncated", "num_tokens")
"""Of stored responses, that counting needs."""


@dataclass(frozen=True, slots=True)
class PromptOutcome:
    """How the model did on one prompt."""

    position: int
    prompt_id: str
    task: str
    num_samples: int
    """Responses drawn."""
    num_counted: int
    """Responses that are evidence about the pass rate."""
    num_positive: int
    failures: tuple[str, ...]
    """Why graders failed, once for each response they failed on."""
    reward_sum: float
    """Over the counted responses."""
    num_tokens: int
    """Of all responses."""
    num_truncated: int

    @property
    def pass_rate(self) -> float | None:
        """Positives over counted responses; None without any."""
        return self.num_positive / self.num_counted if self.num_counted else None

    @property
    def mean_reward(self) -> float | None:
        """Over the counted responses; None without any."""
        return self.reward_sum / self.num_counted if self.num_counted else None


@dataclass(frozen=True, slots=True)
class OutcomeRule:
    """The rule by which a training run with the same settings would count each response; see ``StepSettings``.

    Stored responses hold what happened, so another rule needs no new ones.
    """

    positive_threshold: float
    truncated: Literal["grade", "zero", "exclude", "mask"]
    grader_failure: Literal["exclude", "as_zero"]

    def outcomes(self, table: pa.Table) -> list[PromptOutcome]:
        """Count every prompt.

        Args:
            table: responses in the order of their positions, as :meth:`ResponseStore.table` returns them.
        """
        rows = table.select(COLUMNS).to_pylist()
        return [self._outcome(list(group)) for _, group in groupby(rows, key=lambda row: row["position"])]

    def _outcome(self, rows: list[dict[str, Any]]) -> PromptOutcome:
        rewards = [reward for row in rows if (reward := self._reward(row)) is not None]
        first = rows[0]
        return PromptOutcome(
            position=first["position"],
            prompt_id=first["prompt_id"],
            task=first["task"],
            num_samples=len(rows),
            num_counted=len(rewards),
            num_positive=sum(reward > self.positive_threshold for reward in rewards),
            failures=tuple(row["failure"] for row in rows if row["failure"] and not self._settles(row)),
            reward_sum=sum(rewards),
            num_tokens=sum(row["num_tokens"] for row in rows),
            num_truncated=sum(row["is_truncated"] for row in rows),
        )

    def _settles(self, row: Mapping[str, Any]) -> bool:
        """Whether a response counts as something whatever a grader says."""
        return row["is_truncated"] and self.truncated in ("zero", "exclude")

    def _reward(self, row: Mapping[str, Any]) -> float | None:
        """Reward that a response counts with; None where it is no evidence."""
        if self._settles(row):
            return 0.0 if self.truncated == "zero" else None
        if row["reward"] is None:
            return 0.0 if self.grader_failure == "as_zero" else None
        return row["reward"]


def history_of(outcomes: Iterable[PromptOutcome]) -> dict[str, tuple[float, float]]:
    """(positives, counted responses) by prompt id, as estimators start from; prompts without evidence are left out."""
    counts: dict[str, tuple[float, float]] = {}
    for outcome in outcomes:
        if outcome.num_counted:
            positives, responses = counts.get(outcome.prompt_id, (0.0, 0.0))
            counts[outcome.prompt_id] = (positives + outcome.num_positive, responses + outcome.num_counted)
    return counts
