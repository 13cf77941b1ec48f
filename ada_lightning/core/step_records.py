"""Settings of a step, its record of each prompt, and the results of a rollout and an evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

from ada_lightning.core.checks import refuse, unmet
from ada_lightning.core.records import Outcome, ResponseGroup, ResponsePool
from ada_lightning.core.schedule import Continuous, Schedule

if TYPE_CHECKING:
    from ada_lightning.core.top_up import Division


@dataclass(frozen=True, slots=True)
class StepSettings:
    """What stays the same over the steps of a run.

    Raises:
        ValueError: an unknown choice.
    """

    seed: int
    """Of the run; every response's own seed derives from it."""
    seed_requests: bool = True
    """Give each request its seed, so that results do not depend on scheduling."""
    positive_threshold: float = 0.7
    """A reward above it is a positive (official code: 0.7)."""
    truncated: Literal["grade", "zero", "exclude", "mask"] = "grade"
    """What a response cut by the length limit counts as. ``grade``: like any other. ``zero``: reward 0 without asking
    the grader; it trains as a failure. ``exclude``: no evidence, neither in the pool nor trained on, drawn anew by
    sequential samplers; what is optimised is then the pass rate among finished responses, as far as the statement at
    the start of a run says. ``mask``: graded and counted,
    never trained on; the update then follows no pass rate exactly."""
    grader_failure: Literal["exclude", "as_zero"] = "exclude"
    """What a response counts as that could not be graded through no doing of its own, as where a judge's server is
    down: no evidence either way, or a 0. A failure of its own making is a 0 in any case
    (:mod:`ada_lightning.rewards.failures` says which are)."""
    schedule: Schedule = Continuous()  # noqa: RUF009 - frozen
    """When a prompt's next block may start. With a step budget nothing is drawn ahead: it has to know first."""

    def __post_init__(self) -> None:
        """Check the choices."""
        truncated, failure = self.truncated, self.grader_failure
        is_number = isinstance(self.positive_threshold, int | float)
        is_known = truncated in ("grade", "zero", "exclude", "mask")
        refuse(
            *unmet(
                (is_number, "rollout.positive_threshold must be a number", repr(self.positive_threshold)),
                (is_known, "rollout.truncated must be grade, zero, exclude or mask", repr(truncated)),
                (failure in ("exclude", "as_zero"), "rollout.grader_failure must be exclude or as_zero", repr(failure)),
            )
        )

    def asks_grader(self, *, is_truncated: bool, is_cut_short: bool = False) -> bool:
        """Whether a response has to be graded; ``is_cut_short``: its request has a limit of its own."""
        return not (is_truncated and (is_cut_short or self.truncated in ("zero", "exclude")))

    def reward(self, outcome: Outcome) -> float | None:
        """Reward that a response counts with; None where it is no evidence."""
        if outcome.grade.reward is None:
            return None if self.grader_failure == "exclude" else 0.0
        if outcome.is_truncated and self.truncated == "exclude":
            return None
        return outcome.grade.reward

    def is_positive(self, reward: float) -> bool:
        """Whether a reward counts as right."""
        return reward > self.positive_threshold

    def request_seed(self, stage: str, step: int, slot: int, prompt_id: str, sample_index: int) -> int | None:
        """Seed of one response, in [0, 2**63); None where requests are not seeded.

        The slot is part of it: a prompt drawn twice in one step must not get identical responses. A killed and resumed
        run, and a barrier and a continuous schedule, give the same seeds and so the same responses.
        """
        if not self.seed_requests:
            return None
        key = f"{self.seed}\x1f{stage}\x1f{step}\x1f{slot}\x1f{prompt_id}\x1f{sample_index}"
        return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) >> 1


@dataclass(slots=True, eq=False)
class PromptRun:
    """One prompt on its way through a step."""

    pool: ResponsePool
    num_launched: int = 0
    """Responses asked for, those drawn ahead included."""
    round_index: int = -1
    round_of: list[int] = field(default_factory=list)
    """Round of every response that the sampler wants."""
    is_waiting: bool = False
    """For the step's budget, or for the other prompts of a round."""
    is_finished: bool = False
    early_risks: list[float] = field(default_factory=list)
    """Responses expected to be dropped, of each block drawn ahead that is not wanted yet."""
    num_drops: int = 0
    """Times that something drawn ahead was dropped."""
    told: dict[int, Outcome] = field(default_factory=dict)
    """Outcomes by sample index: those committed, and those whose turn in the launch order has not come."""

    def count_known(self, settings: StepSettings, num_launched: int) -> tuple[int, int, int]:
        """Positives and negatives among the first launched responses, and how many of them are open."""
        coming = range(self.pool.num_drawn, num_launched)
        rewards = [settings.reward(self.told[index]) for index in coming if index in self.told]
        verdicts = [settings.is_positive(reward) for reward in rewards if reward is not None]
        num_positive = self.pool.num_positive + sum(verdicts)
        num_negative = self.pool.num_negative + len(verdicts) - sum(verdicts)
        return num_positive, num_negative, num_launched - self.pool.num_drawn - len(rewards)


@dataclass(slots=True)
class RolloutStats:
    """Counts of one step, as it goes on. All are sums, so that they add up over steps and ranks."""

    num_prompts: int = 0
    num_drawn: int = 0
    """Committed responses, excluded ones included."""
    num_failed: int = 0
    """Responses whose grader failed."""
    num_failed_excluded: int = 0
    """Those of them that are no evidence; the others count as 0."""
    num_truncated: int = 0
    num_limited: int = 0
    """Responses that a sampler would cut where they get long: no evidence, whether they did or not."""
    num_cut: int = 0
    """Those of them that it cut: drawn, not graded, left out."""
    num_empty: int = 0
    num_skipped_prompts: int = 0
    """Prompts too long for the engine."""
    generated_tokens: int = 0
    """Response tokens of committed responses, and of hints that the policy wrote."""
    num_hinted: int = 0
    """Committed responses under a hint; ``num_drawn`` counts them, too."""
    hinted_tokens: int = 0
    """Response tokens of them; ``generated_tokens`` counts them, too."""
    written_tokens: int = 0
    """Tokens of hints that the policy wrote; ``generated_tokens`` counts them, too. ``num_drawn`` does not."""
    wasted_tokens: int = 0
    """Response tokens of responses that were generated and not committed."""
    num_cache_hits: int = 0
    """Committed responses with the grade of an equal one before."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed grades by reason."""
    failure_details: dict[str, str] = field(default_factory=dict)
    """What the first one of each reason says."""
    seconds: float = 0.0
    """Wall-clock seconds of whoever drove the step, weight sync excluded."""

    def note_failure(self, reason: str, detail: str, *, is_excluded: bool) -> None:
        """Count a response whose grader failed."""
        self.num_failed += 1
        self.num_failed_excluded += is_excluded
        self.failures[reason] = self.failures.get(reason, 0) + 1
        self.failure_details.setdefault(reason, detail)

    @property
    def drawn_tokens(self) -> int:
        """All response tokens that the engine generated: what a rollout costs, whatever came of it."""
        return self.generated_tokens + self.wasted_tokens


@dataclass(frozen=True, slots=True)
class RolloutResult:
    """One rollout step: a group for each prompt of the step, in the step's order.

    Where a step is filled up, those that were filtered or not needed (``is_surplus``) keep nothing.
    """

    step: int
    """Rollout step, from 0."""
    policy_version: int
    groups: tuple[ResponseGroup, ...]
    stats: RolloutStats
    division: Division | None = None
    """What became of the groups of a step that was filled up."""


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Held-out evaluation of one policy version."""

    policy_version: int
    step: int
    """Rollout steps finished before it; 0 is the untrained policy."""
    groups: tuple[ResponseGroup, ...]
    metrics: dict[str, float]
    """For example ``eval/avg_at_4``."""
    is_final: bool
    """Whether no training follows."""
