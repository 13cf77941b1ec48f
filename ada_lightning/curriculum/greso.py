"""Skips prompts that had no signal the last times, at random, before they are sampled (GRESO)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ada_lightning.curriculum.uniform import UniformCurriculum
from ada_lightning.protocols import Curriculum
from ada_lightning.types import Prompt, PromptHistory, ResponsePool

EASY, HARD = "easy", "hard"


class GresoCurriculum:
    """Passes on the prompts of another curriculum, those without a signal z times in a row with probability ``p^z``.

    The claim: a prompt whose group was all right or all wrong at its last visits is so at the next one (over 90 % of
    them), so it can be skipped before it costs a response. A prompt comes with probability ``max(p_kind^z,
    min_chance)``, where z counts its most recent visits of one kind in a row, all right (easy) or all wrong (hard).
    ``p_easy`` and ``p_hard`` move by ``step_size`` after each step: down where the share of such groups among those
    sampled was above its target, up where it was not. Goes with ``refill=adaptive``, which filters what is left.

    Assumed: rewards between 0 and 1. Degenerate: with data that is solved, or far too hard, ``p`` falls to its least
    value and prompts come by ``min_chance`` and untried ones alone; a step can then have fewer prompts. Groups of equal
    rewards between the two bounds count as neither.

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
        easy_share: share of it for easy ones; the rest is for hard ones.
        easy_from: least mean reward of an easy group.
        hard_to: largest mean reward of a hard group.

    Raises:
        ValueError: a value out of range; all in one message.

    Source:
        GRESO, arXiv:2506.02177; constants of ``Infini-AI-Lab/GRESO``.
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
        easy_share: float = 1 / 3,
        easy_from: float = 0.98,
        hard_to: float = 0.11,
    ) -> None:
        errors = []
        if not 0 < p_min <= p_start <= p_max <= 1:
            errors.append(
                f"curriculum needs 0 < p_min <= p_start <= p_max <= 1; got p_min = {p_min}, p_start = {p_start}, "
                f"p_max = {p_max}"
            )
        if not 0 < min_chance <= 1:
            errors.append(
                f"curriculum.min_chance must be in (0, 1], or prompts would be lost for good; got {min_chance}"
            )
        errors += [
            f"curriculum.{name} must be in [0, 1]; got {value}"
            for name, value in (("step_size", step_size), ("target", target), ("easy_share", easy_share))
            if not 0 <= value <= 1
        ]
        if not hard_to < easy_from:
            errors.append(f"curriculum.hard_to = {hard_to} must be less than curriculum.easy_from = {easy_from}")
        if errors:
            raise ValueError("; ".join(errors))
        self.curriculum: Curriculum = curriculum or UniformCurriculum()
        self.p_min = p_min
        self.p_max = p_max
        self.step_size = step_size
        self.min_chance = min_chance
        self.targets = {EASY: target * easy_share, HARD: target * (1.0 - easy_share)}
        self.easy_from = easy_from
        self.hard_to = hard_to
        self.p = {EASY: p_start, HARD: p_start}
        self._streaks: dict[str, tuple[str, int]] = {}

    @property
    def needs_history(self) -> bool:
        """Whether the other curriculum does."""
        return self.curriculum.needs_history

    def chance(self, prompt_id: str) -> float:
        """Return the probability with which a prompt comes whose turn it is."""
        if prompt_id not in self._streaks:
            return 1.0
        kind, length = self._streaks[prompt_id]
        return max(self.p[kind] ** length, self.min_chance)

    def choose(
        self,
        prompts: Sequence[Prompt],
        num_prompts: int,
        *,
        step: int,
        seed: int,
        recall: Callable[[Sequence[Prompt]], Sequence[PromptHistory]],
    ) -> list[Prompt]:
        """Return those of the other curriculum's prompts that are not skipped; there may be none."""
        candidates = self.curriculum.choose(prompts, num_prompts, step=step, seed=seed, recall=recall)
        generator = random.Random(f"{seed}/greso/{step}")
        drawn = [generator.random() for _ in candidates]
        return [
            prompt for prompt, value in zip(candidates, drawn, strict=True) if value < self.chance(prompt.prompt_id)
        ]

    def observe(self, pools: Sequence[ResponsePool]) -> None:
        """Note which groups had no signal, and let the probabilities follow."""
        evident = [pool for pool in pools if pool.num_sampled]
        if not evident:
            return
        num_of = {EASY: 0, HARD: 0}
        for pool in evident:
            prompt_id, kind = pool.prompt.prompt_id, self._kind(pool)
            if kind is None:
                self._streaks.pop(prompt_id, None)
                continue
            num_of[kind] += 1
            last_kind, length = self._streaks.get(prompt_id, (kind, 0))
            self._streaks[prompt_id] = kind, length + 1 if last_kind == kind else 1
        for kind, number in num_of.items():
            is_above = number / len(evident) > self.targets[kind]
            moved = self.p[kind] - self.step_size if is_above else self.p[kind] + self.step_size
            self.p[kind] = min(max(moved, self.p_min), self.p_max)

    def figures(self, histories: Sequence[PromptHistory]) -> Mapping[str, float]:
        """``p_easy`` and ``p_hard``, prompts with a streak, and what the other curriculum has to say."""
        num_streaks = float(len(self._streaks))
        return {"p_easy": self.p[EASY], "p_hard": self.p[HARD], "without_signal": num_streaks} | dict(
            self.curriculum.figures(histories)
        )

    def state_dict(self) -> dict[str, Any]:
        """Probabilities, and the streaks by prompt id."""
        return {"p": dict(self.p), "streaks": {prompt_id: list(streak) for prompt_id, streak in self._streaks.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        if state:
            self.p = {kind: float(state["p"][kind]) for kind in (EASY, HARD)}
            self._streaks = {prompt_id: (kind, int(n)) for prompt_id, (kind, n) in state["streaks"].items()}

    def bend(self) -> str:
        """What is skipped, and what bounds it."""
        line = (
            "curriculum: prompts without a signal at their last visits are skipped at random, down to a chance of "
            f"{self.min_chance:g}, and nothing undoes that: a prompt counts by how often it comes"
        )
        inner = self.curriculum.bend()
        return f"{line}; {inner}" if inner else line

    def _kind(self, pool: ResponsePool) -> str | None:
        """Of a group without a signal: easy or hard; None where it has one, or is neither."""
        if pool.has_signal:
            return None
        mean = sum(response.reward for response in pool.responses) / pool.num_sampled
        return EASY if mean >= self.easy_from else HARD if mean <= self.hard_to else None
