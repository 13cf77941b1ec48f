"""Skips prompts that had no signal the last times, at random, before they are sampled (GRESO)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from ada_lightning.core.checks import refuse, unmet
from ada_lightning.core.named_state import load_named_state, named_state
from ada_lightning.core.protocols import Curriculum, Recall
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.curriculum.uniform import UniformCurriculum

EASY, HARD = "easy", "hard"


class GresoCurriculum(Curriculum):
    """Passes on the prompts of another curriculum, those without a signal z times in a row with probability ``p^z``.

    The claim: a prompt whose group was all right or all wrong at its last visits is so at the next one (over 90 % of
    them), so it can be skipped before it costs a response. A prompt comes with probability ``max(p_kind^z,
    min_chance)``, where z counts its most recent visits of one kind in a row, easy or hard by their mean reward.
    ``p_easy`` and ``p_hard`` move by ``step_size`` after each step from the second epoch on: down where the share of
    such groups among those sampled reached its target, up where it did not. In the first epoch no prompt can be
    skipped, so its shares say nothing about skipping. Goes with ``refill=adaptive``, which filters what is left.

    Only groups whose rewards are all equal count in those shares, as in the authors' code. It differs from this in one
    thing: its graders give 1, 0.1 for a wrong and 0 for a malformed answer, and its share of hard groups is of those
    with 0.1 throughout; groups of malformed answers alone are hard in its streaks and not in its share, here in both.

    Assumed: rewards between 0 and 1. Degenerate: with data that is solved, or far too hard, ``p`` falls to its least
    value and prompts come by ``min_chance`` and untried ones alone; a step can then have fewer prompts.

    The order of prompts, and whom it skips, follow from seed, history and how many prompts were taken; all of it is in
    the checkpoint. A skipped prompt waits for the next epoch.

    Args:
        curriculum: gives the order; None is every prompt once an epoch.
        p_start: ``p_easy`` and ``p_hard`` at the start.
        p_min: least value of either.
        p_max: largest value of either.
        step_size: by which they move.
        min_chance: with which every prompt comes at least, however often it had no signal.
        target: share of groups without a signal to aim at.
        hard_per_easy: how many of them may be hard for each easy one.
        easy_from: least mean reward of an easy group.
        hard_to: largest mean reward of a hard group.

    Raises:
        ValueError: a value out of range; all in one message.

    Source:
        GRESO, arXiv:2506.02177; ``Infini-AI-Lab/GRESO`` at b277843: ``verl/trainer/ppo/ray_trainer.py`` (targets,
        steps), ``metric_utils.py`` beside it (shares), ``verl/trainer/ttis/presampling_selector.py`` (chances).
    """

    def __init__(
        self,
        *,
        curriculum: Curriculum | None = None,
        p_start: float = 0.5,
        p_min: float = 0.05,
        p_max: float = 0.95,
        step_size: float = 0.01,
        min_chance: float = 0.01,
        target: float = 0.25,
        hard_per_easy: float = 2.0,
        easy_from: float = 0.98,
        hard_to: float = 0.11,
    ) -> None:
        is_start, start = 0 < p_min <= p_start <= p_max <= 1, f"p_min = {p_min}, p_start = {p_start}, p_max = {p_max}"
        is_chance, never_lost = 0 < min_chance <= 1, "in (0, 1], or prompts would be lost for good"
        is_share = 0 <= hard_per_easy < math.inf
        refuse(
            *unmet(
                (is_start, "curriculum needs 0 < p_min <= p_start <= p_max <= 1", start),
                (is_chance, f"curriculum.min_chance must be {never_lost}", min_chance),
                (0 <= step_size <= 1, "curriculum.step_size must be in [0, 1]", step_size),
                (0 <= target <= 1, "curriculum.target must be in [0, 1]", target),
                (is_share, "curriculum.hard_per_easy must be finite and not negative", hard_per_easy),
                (hard_to < easy_from, f"curriculum.hard_to must be below curriculum.easy_from = {easy_from}", hard_to),
            )
        )
        self.curriculum: Curriculum = curriculum or UniformCurriculum()
        self.needs_history = self.curriculum.needs_history
        self.p_min = p_min
        self.p_max = p_max
        self.step_size = step_size
        self.min_chance = min_chance
        # in this order of operations a share of 2 of 12 groups is the target and not a rounding error below it
        self.targets = {EASY: target / (1 + hard_per_easy), HARD: target * hard_per_easy / (1 + hard_per_easy)}
        self.easy_from = easy_from
        self.hard_to = hard_to
        self.p = {EASY: p_start, HARD: p_start}
        self._streaks: dict[str, tuple[str, int]] = {}
        self._is_second_epoch = False

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

    def bend(self) -> str:
        """What is skipped, and what bounds it."""
        line = (
            "curriculum: prompts without a signal at their last visits are skipped at random, down to a chance of "
            f"{self.min_chance:g}, and nothing undoes that: a prompt counts by how often it comes"
        )
        inner = self.curriculum.bend()
        return f"{line}; {inner}" if inner else line

    def _move(self, kind: str, share: float) -> None:
        """Down where the share reached its target: more of them are skipped."""
        step = -self.step_size if share >= self.targets[kind] else self.step_size
        self.p[kind] = min(max(self.p[kind] + step, self.p_min), self.p_max)

    def _kind(self, pool: ResponsePool) -> str | None:
        """Easy or hard by the mean reward, None between; a hard group of partial rewards can have a signal."""
        mean = sum(response.reward for response in pool.responses) / pool.num_sampled
        return EASY if mean >= self.easy_from else HARD if mean <= self.hard_to else None
