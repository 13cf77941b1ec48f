"""What grades the responses of a rollout: when verdicts come, and what many failed ones mean.

A reward that grades nothing must not be taken for a policy that gets nothing right.
"""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import Prompt, Response, ResponseGroup, Verdict
from ada_lightning.core.step_records import RolloutStats, StepSettings
from ada_lightning.rewards.hints import equal_rewards
from ada_lightning.run.stopping import RunStoppedError

_WAIT_S = 0.05


class Grader(Protocol):
    """What a driver needs of :class:`~ada_lightning.rewards.pool.RewardPool`, and episodes of a pool of environments.

    The one is given a :class:`~ada_lightning.core.records.Completion` and gives a
    :class:`~ada_lightning.core.records.Verdict`, the other takes a call and gives a reply.
    """

    def submit(self, ticket: Any, prompt: Prompt, completion: Any) -> None:
        """Queue one response, or one call."""

    def poll(self) -> list[tuple[Any, Any]]:
        """Return verdicts, or replies, that are ready; never blocks."""
        ...

    def wait(self, timeout_s: float) -> list[tuple[Any, Any]]:
        """Block until one is ready or the time is over."""
        ...

    def discard_pending(self) -> None:
        """Forget what was submitted."""


class StepwiseGrader:
    """Hands each verdict over a fixed number of engine steps after its response was submitted, in order of submission.

    A sampler asks for more as verdicts come in, so with graders that answer when they are done the engine's batches
    differ from run to run. Rounding differs with the batch, and by it, rarely, a token. Here the engine waits for a
    verdict that is late and leaves alone one that is early: the composition of every batch is a function of the tokens.
    A poll is taken for an engine step, which is true of an engine in this process only: one that has its own decodes
    between polls, too.

    Args:
        grader: what really grades, with nothing of this collection pending.
        delay: engine steps between submission and verdict. More hide a slower grader; as many steps pass before a
            prompt's next block may start.
        interrupt_check: called while waiting; may raise.
    """

    def __init__(self, grader: Grader, *, delay: int, interrupt_check: Callable[[], None] = lambda: None) -> None:
        self._grader, self._delay, self._interrupt_check = grader, delay, interrupt_check
        self._step = 0
        self._due: deque[tuple[int, Any]] = deque()
        self._verdicts: dict[Any, Any] = {}
        """By ticket, those that have not come yet included."""

    def submit(self, ticket: Any, prompt: Prompt, completion: Any) -> None:
        """Queue one response."""
        self._due.append((self._step + self._delay, ticket))
        self._verdicts[ticket] = None
        self._grader.submit(ticket, prompt, completion)

    def poll(self) -> list[tuple[Any, Any]]:
        """Return the verdicts that are due after another engine step; waits for those that are not there."""
        self._step += 1
        taken = []
        while self._due and self._due[0][0] <= self._step:
            _, ticket = self._due.popleft()
            taken.append((ticket, self._verdict(ticket)))
        return taken

    def wait(self, timeout_s: float) -> list[tuple[Any, Any]]:
        """Return the verdicts that are due next, for an engine that has nothing else to do.

        Args:
            timeout_s: not looked at: how long it takes must not matter.
        """
        if self._due:
            self._step = max(self._step, self._due[0][0]) - 1
        return self.poll()

    def discard_pending(self) -> None:
        """Forget what was submitted."""
        self._due.clear()
        self._verdicts.clear()
        self._grader.discard_pending()

    def _verdict(self, ticket: Any) -> Any:
        self._note(self._grader.poll())
        while (grade := self._verdicts[ticket]) is None:
            self._interrupt_check()
            self._note(self._grader.wait(_WAIT_S))
        del self._verdicts[ticket]
        return grade

    def _note(self, verdicts: list[tuple[Any, Any]]) -> None:
        self._verdicts.update((ticket, grade) for ticket, grade in verdicts if ticket in self._verdicts)


_MAX_FAILURES = 256
"""Responses without a grade after which a long list of prompts is given up."""


class FirstGrades:
    """Looks at the grades of one reward. Once it has graded a response, failures are warned of and no more.

    Args:
        grader: pool of the reward.
    """

    def __init__(self, grader: Any) -> None:
        self._reward = getattr(grader, "reward", grader)
        self._has_succeeded = False
        self._failures = Counter[str]()
        self._details: dict[str, str] = {}

    def check(
        self,
        stats: RolloutStats,
        settings: StepSettings,
        *,
        alarm_ratio: float,
        where: str,
        responses: Sequence[Response] = (),
    ) -> None:
        """Look at a complete rollout or evaluation, and warn where a larger share than ``alarm_ratio`` failed.

        Of the first one with a grade, a line says where the rewards of all ``responses`` are equal.

        Raises:
            RunStoppedError: none was graded, in this one and before.
        """
        num_complete = stats.num_drawn - stats.num_cut
        if num_complete and stats.num_failed / num_complete > alarm_ratio:
            warnings.warn(
                f"{stats.num_failed} of {num_complete} responses could not be graded: {stats.failures}; "
                f"{stats.num_failed_excluded} of them are left out, the others count as 0. Check the reward function.",
                RuntimeWarning,
                stacklevel=3,
            )
        num_settled = 0 if settings.asks_grader(is_truncated=True) else stats.num_truncated
        has_graded = num_complete - num_settled - stats.num_failed > 0
        if has_graded and not self._has_succeeded and (line := self.equal_rewards(responses, where)):
            print(line, flush=True)
        self._has_succeeded = self._has_succeeded or has_graded
        self._stop_without_success(stats.failures, stats.failure_details, where)

    def equal_rewards(self, responses: Sequence[Response], where: str) -> str:
        """Say what to check where all rewards are equal; empty where they are not, or there are too few."""
        return equal_rewards(self._reward, responses, where)

    def trust(self) -> None:
        """Take it that the reward has graded a response: of the part of a list that was drawn before."""
        self._has_succeeded = True

    def note(self, grades: Iterable[Verdict]) -> bool:
        """Look at those of one prompt of a long list; whether any response has been graded so far.

        Raises:
            RunStoppedError: none of very many was.
        """
        for grade in grades:
            self._has_succeeded = self._has_succeeded or not grade.failure
            if grade.failure:
                self._failures[grade.failure] += 1
                self._details.setdefault(grade.failure, grade.detail)
        if self._failures.total() >= _MAX_FAILURES:
            self.check_list()
        return self._has_succeeded

    def check_list(self) -> None:
        """Look at all prompts noted so far.

        Raises:
            RunStoppedError: no response was graded.
        """
        self._stop_without_success(self._failures, self._details, "drawn so far")

    def _stop_without_success(self, failures: Mapping[str, int], details: Mapping[str, str], where: str) -> None:
        if self._has_succeeded or not failures:
            return
        counts = Counter(failures).most_common()
        detail = details.get(counts[0][0], "").strip() or counts[0][0]
        if counts[0][0].startswith("environment_"):
            raise RunStoppedError(
                f"the environment has ended none of the {sum(failures.values())} episodes {where}: "
                f"{', '.join(f'{reason} {count}' for reason, count in counts)}. The first {counts[0][0]} says:\n"
                f"{detail}\nCorrect it or its settings (environment.time_limit_s, environment.memory_limit_gb) and "
                "start again; docs/environments.md says what it may return"
            )
        raise RunStoppedError(
            f"{type(self._reward).__name__} has graded none of the {sum(failures.values())} responses {where}: "
            f"{', '.join(f'{reason} {count}' for reason, count in counts)}. The first {counts[0][0]} says:\n{detail}\n"
            "A reward returns 0 for a wrong response, and raises only where it cannot grade. Correct it or its "
            "settings (reward.time_limit_s, reward.memory_limit_gb) and start again; reasons: docs/grader_safety.md"
        )


class LostAmounts:
    """Says once that amounts of rewards are lost, where the advantage counts positives.

    Args:
        advantage: of the run.
        threshold: a reward above it is a positive.
    """

    def __init__(self, advantage: Advantage, threshold: float) -> None:
        self._name, self._threshold = type(advantage).__name__, threshold
        self._is_silent = Trait.NEEDS_BOTH_CLASSES not in advantage.traits

    def warn(self, groups: Sequence[ResponseGroup]) -> None:
        """Look at the rewards of a rollout: whether several of them are on one side of the threshold."""
        if self._is_silent:
            return
        threshold = self._threshold
        rewards = [response.reward for group in groups for response in group.pool.responses]
        above = {reward for reward in rewards if reward > threshold}
        if len(above) <= 1 and len(set(rewards) - above) <= 1:
            return
        self._is_silent = True
        num_above = sum(reward > threshold for reward in rewards)
        nothing = "; nothing can be learned of such a step" if num_above in (0, len(rewards)) else ""
        warnings.warn(
            f"{self._name} learns from which rewards are above rollout.positive_threshold = {threshold:g}, not from "
            f"their amounts: of {len(rewards)} rewards, from {min(rewards):g} to {max(rewards):g}, {num_above} are"
            f"{nothing}. Set it to what tells right from wrong, or train on the amounts: "
            "advantage=weighted_leave_one_out selection=stratified sampler=spread",
            RuntimeWarning,
            stacklevel=3,
        )
