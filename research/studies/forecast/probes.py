"""What a few responses of a step's own prompts tell, drawn of the four that are stored.

A probe sees two responses of a prompt. Where they are thrown away, the other two say what the prompt is worth: whether
those differ has twice p (1 - p) as its mean, and nothing of it was seen. Where they train, the group is the stored one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.methods.estimators.logit_prior import expected_spread
from research.studies.forecast.rules import COMMITTED, GROUP, Floats, Step, num_chosen, taken

SEEN, PROBED_RATIO, NUM_DRAWS = 2, 2, 200
"""Responses of a probe, how many times as many prompts as are taken are probed, and how often probes are drawn."""
_LEFT = GROUP - SEEN

Counts = NDArray[np.int64]
Figures = tuple[float, float]
"""Share of the taken prompts with a signal, and their p (1 - p); not a number where the probe tells nothing of it."""
Probe = Callable[[Step], Figures]


def thrown_away(step: Step) -> Figures:
    """Probe twice as many prompts as are taken, with responses that do not train."""
    return float("nan"), _left_out(step, candidates(step))


def own_counts(step: Step) -> Figures:
    """Take by two responses of every prompt, which an earlier visit drew: as prompts that come back have them."""
    return float("nan"), _left_out(step, np.ones(len(step.tasks), dtype=bool))


def trains_too(step: Step) -> Figures:
    """Probe twice as many prompts as are taken; the responses of those that are taken are half of their groups.

    A prompt whose two differ has a signal already. The others are ranked by the chance that two more bring one. Their
    p (1 - p) is not told: what was seen is part of what it would be told by.
    """
    is_probed_P, signals = candidates(step), []
    for seen_P in _drawn(step):
        alpha_P, beta_P = _updated(step, seen_P)
        alike_P = np.where(seen_P == 0, _all_right(beta_P, alpha_P), _all_right(alpha_P, beta_P))
        score_P = np.where((seen_P > 0) & (seen_P < SEEN), 1.0, 1.0 - alike_P)
        signals.append(_mean_of_taken(step, is_probed_P, score_P, step.has_signal))
    return float(np.mean(signals)), float("nan")


PROBES: Mapping[str, tuple[Probe, float]] = {
    "probe of 2, thrown away": (thrown_away, GROUP + PROBED_RATIO * SEEN),
    "probe of 2, trains too": (trains_too, GROUP + (PROBED_RATIO - 1) * SEEN),
    "own counts of 2, prompts come back": (own_counts, GROUP),
}
"""By name, with the generated responses of a group that trains: those of probed prompts that are left out count."""


def candidates(step: Step) -> NDArray[np.bool_]:
    """Return which prompts are probed: those of which the committed forecast expects most. Shape ``(P,)``."""
    order_P = np.argsort(-expected_spread(*step.beliefs[COMMITTED]), kind="stable")
    is_probed_P = np.zeros(len(step.tasks), dtype=bool)
    is_probed_P[order_P[: PROBED_RATIO * num_chosen(step)]] = True
    return is_probed_P


def _left_out(step: Step, is_probed_P: NDArray[np.bool_]) -> float:
    """Return p (1 - p) of the taken prompts, as the responses show it that no probe saw."""
    found = []
    for seen_P in _drawn(step):
        rest_P = step.right_P - seen_P
        shown_P = rest_P * (_LEFT - rest_P) / (_LEFT * (_LEFT - 1))
        found.append(_mean_of_taken(step, is_probed_P, expected_spread(*_updated(step, seen_P)), shown_P))
    return float(np.mean(found))


def _mean_of_taken(step: Step, is_probed_P: NDArray[np.bool_], score_P: Floats, value_P: NDArray[Any]) -> float:
    chance_P = taken(np.where(is_probed_P, score_P, -1.0), num_chosen(step))
    return float(chance_P @ value_P / chance_P.sum())


def _drawn(step: Step) -> Iterator[Counts]:
    """Yield right responses that probes have seen, drawn of the stored ones without putting back. Shapes ``(P,)``."""
    generator = np.random.default_rng(0)
    for _ in range(NUM_DRAWS):
        yield generator.hypergeometric(step.right_P, GROUP - step.right_P, SEEN)


def _updated(step: Step, seen_P: Counts) -> tuple[Floats, Floats]:
    """The committed belief with a probe's responses more. Shapes ``(P,)``."""
    alpha_P, beta_P = step.beliefs[COMMITTED]
    return alpha_P + seen_P, beta_P + SEEN - seen_P


def _all_right(alpha_P: Floats, beta_P: Floats) -> Floats:
    """Return the chance that all responses that are left are right."""
    drawn = np.arange(_LEFT)[:, None]
    return np.asarray(((alpha_P + drawn) / (alpha_P + beta_P + drawn)).prod(0))
