"""A reward that grades nothing must not be taken for a policy that gets nothing right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ada_lightning.rollout.drawn import DrawnPrompt
from ada_lightning.run.run_stopped import RunStoppedError

_MAX_FAILURES = 256
"""Responses without a grade after which a long list of prompts is given up."""


class FirstGrades:
    """Stops what starts with failed grades only. Once a response has been graded, failures are counted and no more."""

    def __init__(self) -> None:
        self._has_succeeded = False
        self._failures = Counter[str]()
        self._details: dict[str, str] = {}

    def check(
        self, grader: Any, failures: Mapping[str, int], details: Mapping[str, str], *, num_graded: int, where: str
    ) -> None:
        """Look at a complete rollout or evaluation.

        Args:
            grader: pool of the reward.
            failures: failed grades by reason.
            details: what the first one of each reason says.
            num_graded: responses graded without a failure.
            where: what they were drawn for.

        Raises:
            RunStoppedError: none was graded, in this one and before.
        """
        self._has_succeeded = self._has_succeeded or num_graded > 0
        if self._has_succeeded or not failures:
            return
        reward = type(getattr(grader, "reward", grader)).__name__
        counts = Counter(failures).most_common()
        detail = details.get(counts[0][0], "").strip() or counts[0][0]
        raise RunStoppedError(
            f"{reward} has graded none of the {sum(failures.values())} responses {where}: "
            f"{', '.join(f'{reason} {count}' for reason, count in counts)}. The first {counts[0][0]} says:\n{detail}\n"
            "A reward returns 0 for a wrong response, and raises only where it cannot grade. Correct it or its "
            "settings (reward.time_limit_s, reward.memory_limit_gb) and start again; docs/rewards.md has the reasons"
        )

    def note(self, grader: Any, drawn: DrawnPrompt) -> bool:
        """Look at one prompt of a long list; whether any response has been graded so far.

        Raises:
            RunStoppedError: none of very many was.
        """
        for draw in drawn.draws:
            self._has_succeeded = self._has_succeeded or not draw.grade.failure
            if draw.grade.failure:
                self._failures[draw.grade.failure] += 1
                self._details.setdefault(draw.grade.failure, draw.grade.detail)
        if self._failures.total() >= _MAX_FAILURES:
            self.check_list(grader)
        return self._has_succeeded

    def check_list(self, grader: Any) -> None:
        """Look at all prompts noted so far.

        Raises:
            RunStoppedError: no response was graded.
        """
        self.check(grader, self._failures, self._details, num_graded=0, where="drawn so far")
