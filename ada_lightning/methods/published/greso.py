"""GRESO (arXiv:2506.02177): prompts that had no signal the last times are skipped at random, before they are sampled.

Claim: a prompt whose group was all right or all wrong at its last visits is so at the next one (over 90 % of them), so
    it can be skipped before it costs a response. What is left is filtered and filled up as by DAPO, in waves as large
    as is necessary.
Assumption: rewards between 0 and 1.
Degenerate: with data that is solved, or far too hard, ``p`` falls to its least value and prompts come by ``min_chance``
    and untried ones alone; a step can then have fewer prompts.
Fidelity: faithful (code). The share of hard groups counts all with equal rewards; the code counts only those of
    well-formed answers. A step that reaches into the second epoch belongs to it. The clip is the default and there is
    no entropy bonus; the code has 0.2 on both sides and 0.001.

Source: ``Infini-AI-Lab/GRESO`` at b277843: ``verl/trainer/ppo/ray_trainer.py`` (targets, steps), ``metric_utils.py``
    next to it (shares), ``verl/trainer/ttis/presampling_selector.py`` (chances).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ada_lightning.core.named_state import load_named_state, named_state
from ada_lightning.core.options import option, use
from ada_lightning.core.protocols import Curriculum, Recall
from ada_lightning.core.protocols.sampling import RefillProgress
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.curriculum.uniform import UniformCurriculum
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.refill import DynamicSampling
from ada_lightning.methods.sampling.uniform import UniformSampler

EASY, HARD = "easy", "hard"


@option("curriculum", "greso", hidden=("curriculum",), defaults=("uniform@curriculum",))
@dataclass(kw_only=True, eq=False)
class GresoCurriculum(Checked, Curriculum):
    """Prompts that were all right or all wrong at their last z visits are skipped with probability ``1 - p^z``.

    It passes on the prompts of another curriculum. A prompt comes with probability ``max(p_kind^z, min_chance)``, where
    z counts its most recent visits of one kind in a row, easy or hard by their mean reward. ``p_easy`` and ``p_hard``
    move by ``step_size`` after each step from the second epoch on: down where the share of such groups among those
    sampled reached its target, up where it did not. In the first epoch no prompt can be skipped, so its shares say
    nothing about skipping. Goes with ``refill=adaptive``, which filters what is left.

    Only groups whose rewards are all equal count in those shares, as in the authors' code. One thing differs. The
    code's graders give 1, 0.1 for a wrong and 0 for a malformed answer, and its share of hard groups is of those with
    0.1 throughout. Groups of malformed answers only are hard in its streaks and not in its share; here they are in
    both.

    The order of prompts, and whom it skips, follow from seed, history and how many prompts were taken; all of it is in
    the checkpoint. A skipped prompt waits for the next epoch.
    """

    curriculum: Curriculum = field(default_factory=UniformCurriculum)
    """Whose order is skipped through."""
    p_start: float = 0.5
    """p of prompts that were all right, and of those that were all wrong, at the start."""
    p_min: float = 0.05
    """Least value of either."""
    p_max: float = 0.95
    """Largest value of either."""
    step_size: float = 0.01
    """By which they move after each step from the second epoch on."""
    min_chance: float = 0.01
    """With which every prompt comes at least, however often it had no signal."""
    target: float = 0.25
    """Share of groups without a signal to aim at."""
    hard_per_easy: float = 2.0
    """That share divided: 2 all wrong for each all right."""
    easy_from: float = 0.98
    """Least mean reward of a group that is all right."""
    hard_to: float = 0.11
    """Largest mean reward of a group that is all wrong."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.needs_history = self.curriculum.needs_history
        total = 1 + self.hard_per_easy
        # in this order of operations a share of 2 of 12 groups is the target and not a rounding error below it
        self.targets = {EASY: self.target / total, HARD: self.target * self.hard_per_easy / total}
        self.p = {EASY: self.p_start, HARD: self.p_start}
        self._streaks: dict[str, tuple[str, int]] = {}
        self._is_second_epoch = False

    def _checks(self) -> Iterator[Check]:
        yield (
            0 < self.p_min <= self.p_start <= self.p_max <= 1,
            "curriculum needs 0 < p_min <= p_start <= p_max <= 1; "
            f"got p_min = {self.p_min}, p_start = {self.p_start}, p_max = {self.p_max}",
        )
        yield (
            0 < self.min_chance <= 1,
            f"curriculum.min_chance must be in (0, 1], or prompts would be lost for good; got {self.min_chance}",
        )
        yield 0 <= self.step_size <= 1, f"curriculum.step_size must be in [0, 1]; got {self.step_size}"
        yield 0 <= self.target <= 1, f"curriculum.target must be in [0, 1]; got {self.target}"
        yield (
            0 <= self.hard_per_easy < math.inf,
            f"curriculum.hard_per_easy must be finite and not negative; got {self.hard_per_easy}",
        )
        yield (
            self.hard_to < self.easy_from,
            f"curriculum.hard_to must be below curriculum.easy_from = {self.easy_from}; got {self.hard_to}",
        )

    def chance(self, prompt_id: str) -> float:
        """Return the probability with which a prompt comes whose turn it is."""
        if prompt_id not in self._streaks:
            return 1.0
        kind, length = self._streaks[prompt_id]
        return max(self.p[kind] ** length, self.min_chance)

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return those of the other curriculum's prompts that are not skipped; there may be none."""
        self._is_second_epoch |= (step + 1) * num_prompts > len(prompts)
        candidates = self.curriculum.choose(prompts, num_prompts, step=step, seed=seed, recall=recall)
        generator = random.Random(f"{seed}/greso/{step}")
        return [prompt for prompt in candidates if generator.random() < self.chance(prompt.prompt_id)]

    def observe(self, pools: Sequence[ResponsePool]) -> None:
        """Note which groups were easy or hard, and let the probabilities and the other curriculum follow."""
        self.curriculum.observe(pools)
        evident = [pool for pool in pools if pool.num_sampled]
        if not evident:
            return
        num_of = {EASY: 0, HARD: 0}
        for pool in evident:
            prompt_id, kind = pool.prompt.prompt_id, self._kind(pool)
            if kind is None:
                self._streaks.pop(prompt_id, None)
                continue
            num_of[kind] += not pool.has_signal
            last_kind, length = self._streaks.get(prompt_id, (kind, 0))
            self._streaks[prompt_id] = kind, length + 1 if last_kind == kind else 1
        if self._is_second_epoch:
            for kind, number in num_of.items():
                self._move(kind, number / len(evident))

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """``p_easy`` and ``p_hard``, prompts with a streak, and what the other curriculum has to say."""
        num_streaks = float(len(self._streaks))
        return {"p_easy": self.p[EASY], "p_hard": self.p[HARD], "without_signal": num_streaks} | dict(
            self.curriculum.figures(beliefs)
        )

    def state_dict(self) -> dict[str, Any]:
        """Probabilities, whether they move already, streaks by prompt id, and what the other curriculum remembers."""
        return {
            "p": dict(self.p),
            "is_second_epoch": self._is_second_epoch,
            "streaks": {prompt_id: list(streak) for prompt_id, streak in self._streaks.items()},
            "curriculum": named_state(self.curriculum),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: the other curriculum was of another class, and remembers something.
        """
        self.p = {kind: float(state["p"][kind]) for kind in (EASY, HARD)}
        self._is_second_epoch = bool(state["is_second_epoch"])
        self._streaks = {prompt_id: (kind, int(n)) for prompt_id, (kind, n) in state["streaks"].items()}
        load_named_state(self.curriculum, state.get("curriculum", {}), setting="curriculum.curriculum")

    def caveat(self) -> str:
        """What is skipped, and what bounds it."""
        line = (
            "curriculum: prompts without a signal at their last visits are skipped at random, down to a chance of "
            f"{self.min_chance:g}, and nothing undoes that: a prompt counts by how often it comes"
        )
        inner = self.curriculum.caveat()
        return f"{line}; {inner}" if inner else line

    def _move(self, kind: str, share: float) -> None:
        """Down where the share reached its target: more of them are skipped."""
        step = -self.step_size if share >= self.targets[kind] else self.step_size
        self.p[kind] = min(max(self.p[kind] + step, self.p_min), self.p_max)

    def _kind(self, pool: ResponsePool) -> str | None:
        """Easy or hard by the mean reward, None between; a hard group of partial rewards can have a signal."""
        mean = sum(response.reward for response in pool.responses) / pool.num_sampled
        return EASY if mean >= self.easy_from else HARD if mean <= self.hard_to else None


@option("refill", "adaptive")
@dataclass(kw_only=True, eq=False)
class AdaptiveDynamicSampling(DynamicSampling):
    """``refill=dynamic`` in waves as large as the share of signals so far makes necessary (GRESO, arXiv:2506.02177).

    A further wave has ``slack * missing / share of groups with a signal`` prompts, at least ``min_ratio`` per prompt of
    a step.

    The claim: a fixed wave is too large where only a few groups are missing. How many are missing is known when every
    group of the last wave is complete, so waves do not overlap here, other than with
    :class:`~ada_lightning.methods.refill.DynamicSampling`. Degenerate: without any signal so far the next wave is as
    large as the first.
    """

    oversampling: float = 1.5
    """Prompts of the first wave per prompt of a step (GRESO: 384 for 256)."""
    refill_ratio: float = field(init=False, default=0.0)
    min_ratio: float = 0.25
    """Fewest prompts of a further wave per prompt of a step (GRESO: 64 for 256)."""
    slack: float = 1.25
    """By how much more prompts are drawn than are expected to do (GRESO: 1.25)."""

    def _checks(self) -> Iterator[Check]:
        yield 0 <= self.min_ratio < math.inf, f"refill.min_ratio must not be negative; got {self.min_ratio}"
        yield 1 <= self.slack < math.inf, f"refill.slack must be at least 1 and finite; got {self.slack}"
        yield from super()._checks()

    def next_wave(self, progress: RefillProgress) -> int:
        """Return the next wave once the last one is complete; 0 before."""
        missing = progress.num_wanted - progress.num_signal
        if progress.num_open or missing <= 0:
            return 0
        if progress.num_signal == 0:
            return self._capped(self.first_wave(progress.num_wanted), progress)
        expected = math.ceil(self.slack * missing * progress.num_drawn / progress.num_signal)
        least = math.ceil(self.min_ratio * progress.num_wanted)
        return self._capped(max(expected, least, 1), progress)


GRESO = known(
    Recipe(
        name="greso",
        card=Card(
            table="prompts",
            changes="skips prompts that often had no signal, then replaces groups",
            needs="its own record of visits without a signal",
            cost="fewer wasted responses",
            fidelity="faithful to the code",
            departs=(
                "The share of hard groups counts all groups with equal rewards. The code counts only those of "
                "well-formed answers. A step that reaches into the second epoch belongs to it. The clip is the default "
                "one and there is no entropy bonus; the code has 0.2 and 0.001."
            ),
        ),
        checked=Comparison(
            rule="how its probabilities move",
            against="by hand",
            test="unit/methods/curriculum/test_greso.py::test_probabilities_move_as_in_the_authors_code",
        ),
        text="""
            GRESO (arXiv:2506.02177): prompts that had no signal at their last visits are skipped at random. The others
            are filtered and filled up as by DAPO, in waves as large as necessary. The code has batches of 256 prompts
            with groups of 8, a clip of 0.2 on both sides and an entropy bonus of 0.001. This run has the defaults of
            loss=clipped.
        """,
        curriculum=GresoCurriculum,
        sampler=use(UniformSampler, group_size=8),
        selection="all",
        refill=AdaptiveDynamicSampling,
        advantage="grpo",
        reduction="token_mean",
    )
)
