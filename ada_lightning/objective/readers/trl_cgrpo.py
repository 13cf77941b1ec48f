"""trl-cgrpo's ``CGRPOTrainer``: ``CGRPOConfig``, or its training arguments saved as JSON.

Held against trl-cgrpo 0.2.0 on TRL 1.14.2, the newest that it takes: ``cgrpo_trainer.py`` (which responses are drawn,
filled up and masked), ``conformal.py`` (scores) and ``cgrpo_config.py``. Everything else is TRL's: ``readers/trl.py``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ada_lightning.objective.readers import trl
from ada_lightning.objective.settings import Changes, Evidence, SettingError, Settings, Trainer, keys_of, spelled
from ada_lightning.objective.update import End, Single, Update

SCORES = ("aps", "first_success", "pass_rate")
LOSS_TYPES = ("dapo", "bnpo", "cispo", "vespo")
"""The others it refuses: rows that fill up a group would count."""
CAPPED = ("dapo", "bnpo")
"""Losses that read ``delta`` as TRL does."""
MAX_BUDGET = 512
"""Responses of a prompt up to which all orders are counted."""
DEFAULTS: dict[str, Any] = trl.DEFAULTS | {
    "budget_grid": [2, 4, 8, 16, 32],
    "num_generations": None,
    "per_device_train_batch_size": 32,
    "delta_margin": 0.05,
    "split_delta": False,
    "score": "aps",
    "recalibrate_every": 50,
    "qhats": None,
}
"""``qhats``: the thresholds that the trainer calibrates and logs as ``cgrpo/qhat_K``, one for each budget."""


def update(settings: Settings) -> Update:
    """Read what the trainer does.

    Raises:
        SettingError: a value that it does not take.
    """
    grid = _grid(settings)
    settings.word("loss_type", LOSS_TYPES)
    score = settings.word("score", SCORES)
    delta = settings.optional("delta")
    if delta is not None and not 0 < delta < 1:
        raise SettingError(f"{settings.where}: delta is {delta:g}; the miscoverage level lies above 0 and below 1")
    plain = trl.update(settings.changed({"num_generations": grid[-1]}))
    thresholds = settings.numbers("qhats", len(grid)) if len(grid) > 1 else ()
    is_capped = delta is not None and settings.raw("loss_type") in CAPPED
    ways = ends(score, grid, thresholds) if thresholds else ()
    is_alone = any(end.drawn == 1 for end in ways) if ways else grid[0] == 1
    return replace(
        plain,
        ends=ways,
        bounds=(-math.inf, 0.0) if is_capped else None,
        single=Single.ZERO if is_alone else Single.REFUSED,
        batch_prompts=_batch_prompts(settings, grid[-1]),
        corrections=(*plain.corrections, *_corrections(settings, grid)),
        notes=(*_notes(grid, score, is_capped=is_capped), *plain.notes),
        unknown=(*_unknown(score, grid), *(text for text in plain.unknown if "processes" not in text)),
        undetermined=_undetermined(score, grid, is_known=thresholds is not None),
    )


def drawn(score: str, grid: Sequence[int], thresholds: Sequence[float], is_right: Sequence[bool]) -> int:
    """Return how many of a prompt's responses are drawn.

    Args:
        score: one of ``SCORES``.
        grid: budgets, ascending.
        thresholds: one for each budget.
        is_right: of each response, in the order in which they are drawn; as many as the last budget.
    """
    first = next((place for place, right in enumerate(is_right, start=1) if right), 0)
    for budget, threshold in zip(grid, thresholds, strict=True):
        if stops(score, budget, threshold, sum(is_right[:budget]), first if first <= budget else 0):
            return budget
    return grid[-1]


def stops(score: str, budget: int, threshold: float, right: int, first: int) -> bool:
    """Whether a prompt is done at a budget.

    Args:
        score: one of ``SCORES``. With ``aps`` all wrong responses give one answer.
        budget: responses drawn.
        threshold: of this budget.
        right: of the responses drawn.
        first: place of the first right one, from 1; 0 without one.
    """
    if score == "aps":
        return max(right, budget - right) / budget >= threshold
    if not right:
        return False
    return (first / budget if score == "first_success" else 1.0 - right / budget) <= threshold


def ends(score: str, grid: Sequence[int], thresholds: Sequence[float]) -> tuple[End, ...]:
    """Return all ways in which the sampling of a prompt can end; arguments as those of ``drawn``."""
    if score == "first_success":
        return _by_first(grid, thresholds)
    found: list[End] = []
    orders, before = {0: 1}, 0
    for budget, threshold in zip(grid, thresholds, strict=True):
        after: dict[int, int] = defaultdict(int)
        for right, count in orders.items():
            for more in range(budget - before + 1):
                after[right + more] += count * math.comb(budget - before, more)
        done = {right for right in after if budget == grid[-1] or stops(score, budget, threshold, right, 0)}
        found += [End(budget, right, after[right]) for right in sorted(done)]
        orders, before = {right: count for right, count in after.items() if right not in done}, budget
    return tuple(found)


def _by_first(grid: Sequence[int], thresholds: Sequence[float]) -> tuple[End, ...]:
    """The place of the first right response decides."""
    orders: dict[tuple[int, int], int] = defaultdict(int)
    orders[grid[-1], 0] = 1
    for first in range(1, grid[-1] + 1):
        budget = drawn("first_success", grid, thresholds, [False] * (first - 1) + [True] * (grid[-1] - first + 1))
        for more in range(budget - first + 1):
            orders[budget, 1 + more] += math.comb(budget - first, more)
    return tuple(End(*place, count) for place, count in sorted(orders.items()))


def remedies(settings: Settings) -> Iterator[Changes]:
    """Yield changes to try: one budget, whose thresholds nobody asks."""
    changes: dict[str, Any] = {}
    if settings.optional("delta") is not None and settings.raw("loss_type") in CAPPED:
        changes["delta"] = None
    plain = settings.changed({"num_generations": _grid(settings)[-1]})
    changes |= next(iter(trl.remedies(plain)))
    grid = _grid(settings)
    yield changes if len(grid) == 1 else {"budget_grid": [grid[-1]]} | changes


def _grid(settings: Settings) -> list[int]:
    """Budgets, ascending."""
    value = settings.raw("budget_grid")
    count = len(value) if isinstance(value, list | tuple) else 1
    found = settings.numbers("budget_grid", count) or ()
    if not found or len(set(found)) != count or any(budget < 1 or budget != int(budget) for budget in found):
        raise SettingError(
            f"{settings.where}: budget_grid is {spelled(value)}; trl-cgrpo takes different whole numbers of at least 1"
        )
    grid = sorted(map(int, found))
    if grid[-1] > MAX_BUDGET:
        raise SettingError(
            f"{settings.where}: budget_grid goes up to {grid[-1]}; all orders are counted up to {MAX_BUDGET} responses"
        )
    size = settings.optional_whole("num_generations", least=2)
    if size not in (None, grid[-1]):
        raise SettingError(
            f"{settings.where}: num_generations is {size}; trl-cgrpo wants the largest budget, {grid[-1]}: leave it out"
        )
    return grid


def _batch_prompts(settings: Settings, size: int) -> int:
    """Of one process, which is all that it takes."""
    rows = settings.optional_whole("generation_batch_size", least=1)
    if rows is None:
        accumulation = settings.whole("gradient_accumulation_steps", least=1)
        steps = settings.optional_whole("steps_per_generation", least=1)
        rows = settings.whole("per_device_train_batch_size", least=1) * (accumulation if steps is None else steps)
    return max(1, rows // size)


def _corrections(settings: Settings, grid: Sequence[int]) -> Iterator[str]:
    if len(grid) == 1:
        return
    every = settings.whole("recalibrate_every")
    when = f"every {every} steps" if every else "before the first step"
    yield f"Thresholds are fitted {when}, on prompts of their own that draw {grid[-1]} responses each."


def _notes(grid: Sequence[int], score: str, *, is_capped: bool) -> Iterator[str]:
    if is_capped:
        yield (
            "delta is read twice: as the miscoverage level, and by TRL's loss as the largest ratio. Below 1 it takes "
            "the gradient of every positive advantage, so right responses do not train."
        )
    if len(grid) == 1:
        return
    yield "A prompt weighs by the responses that it draws, too: rows are added up, and not averaged by prompt."
    if score == "aps":
        yield "aps stops where answers agree, right or wrong, and goes on where they differ."
    else:
        yield f"{score} stops at a success. So hard prompts draw more, and weigh more."


def _unknown(score: str, grid: Sequence[int]) -> Iterator[str]:
    if len(grid) == 1:
        return
    yield "The thresholds. Each calibration makes others, and weights change with them."
    if score == "aps":
        yield "Which wrong answers there are. Weights are of one; where wrong answers differ, more responses are drawn."
    else:
        yield "Whether the verifier passes what the reward function calls right. Weights are of two that agree."


def _undetermined(score: str, grid: Sequence[int], *, is_known: bool) -> str:
    if score == "aps" and grid[0] == 1 and len(grid) > 1:
        return "aps stops at a budget of 1, since one answer agrees with itself. No group has two responses to compare."
    if is_known:
        return ""
    example = ", ".join(["1"] * len(grid))
    return (
        "It depends on thresholds that the trainer calibrates and no file has. Give those that it logs as "
        f"cgrpo/qhat_K, one for each budget: qhats=[{example}]."
    )


TRAINER = Trainer(
    name="trl_cgrpo",
    title="trl-cgrpo's CGRPOTrainer",
    version="0.2.0",
    evidence=Evidence.RUN,
    defaults=DEFAULTS,
    no_effect=keys_of("trl_cgrpo"),
    update=update,
    remedies=remedies,
    command="CGRPOConfig({changes} ...)",
    marks=frozenset({"budget_grid", "recalibrate_every", "split_delta", "delta_margin", "num_calibration_samples"}),
    package="trl_cgrpo",
    spelled=lambda key, value: f"{key}={value!r},",
)
