"""The input of the figures: values by group, which add up over the visits of a prompt, and what the log lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import numpy as np

from ada_lightning.audit.groups import Gathered, Group, Visit
from ada_lightning.audit.intervals import MIN_PROMPTS, Floats
from ada_lightning.audit.pass_rates import Mixture
from ada_lightning.audit.records import Cause, Hole, Order, Sampling
from ada_lightning.audit.rules import Candidate, outcome
from ada_lightning.core.stopping.outcomes import Outcome

COMPARED = (Cause.ALL_RIGHT, Cause.ALL_WRONG)
"""Causes that only a comparison with other responses of the prompt shows."""
FEW_RESPONSES = 8
FEW_PROMPTS = 200


def log_columns(groups: Sequence[Group], *, tells_gradient: bool) -> dict[str, Floats]:
    """Values by group that figures of the log itself are made of; NaN where it does not tell what gave a gradient."""
    numbers = [group.positives + group.negatives for group in groups]
    pairs = [number * (number - 1) for number in numbers]
    rows: dict[str, list[float]] = {
        "prompts": [1.0] * len(groups),
        "responses": [group.num_responses for group in groups],
        "length": [group.length for group in groups],
        "no_gradient": [sum(group.lost.values()) for group in groups],
        "signal": [float(group.differs) for group in groups],
        "comparisons": [group.comparisons for group in groups],
        "rows": [(group.positives + group.negatives) * float(group.differs) for group in groups],
        "graded": [float(number > 0) for number in numbers],
        "pass_rate": [group.positives / max(number, 1) for group, number in zip(groups, numbers, strict=True)],
        "paired": [float(pair > 0) for pair in pairs],
        "pq": [group.positives * group.negatives / max(pair, 1) for group, pair in zip(groups, pairs, strict=True)],
        "square": [
            group.positives * (group.positives - 1) / max(pair, 1) for group, pair in zip(groups, pairs, strict=True)
        ],
        "both": [float(group.positives > 0 and group.negatives > 0) for group in groups],
        "gap": [_length_gap(group) or 0.0 for group in groups],
        "truncated": [float(group.num_truncated or 0) for group in groups],
    }
    rows |= {f"lost:{cause.name}": [group.lost.get(cause, 0.0) for group in groups] for cause in Cause}
    if not tells_gradient:
        compared = ("no_gradient", "signal", "rows", *(f"lost:{cause.name}" for cause in COMPARED))
        rows |= dict.fromkeys(compared, [math.nan] * len(groups))
    return {name: np.asarray(values, float) for name, values in rows.items()}


def _length_gap(group: Group) -> float | None:
    """Mean length of positives minus that of negatives; None without both."""
    if not group.positives or not group.negatives:
        return None
    return group.positive_length / group.positives - group.negative_length / group.negatives


def history_columns(groups: Sequence[Group], returning: Sequence[Visit]) -> dict[str, Floats]:
    """Values by group of what its prompt's earlier visits tell; 0 for a first visit."""
    by_group = {id(visit.group): visit for visit in returning}
    middles: dict[int, float] = {}
    for step in {visit.group.step for visit in returning}:
        middles[step] = median(visit.usefulness for visit in returning if visit.group.step == step)
    names = [
        *("moved", "moves", "num_steps", "gain", "returns", "returning_comparisons"),
        *("returning_length", "chosen_comparisons", "chosen_length"),
    ]
    columns = {name: np.zeros(len(groups)) for name in names}
    for index, group in enumerate(groups):
        visit = by_group.get(id(group))
        if visit is None:
            continue
        columns["returns"][index], columns["gain"][index] = 1.0, visit.gain
        columns["returning_comparisons"][index], columns["returning_length"][index] = group.comparisons, group.length
        if visit.moved is not None:
            columns["moves"][index], columns["moved"][index] = 1.0, visit.moved
            columns["num_steps"][index] = visit.num_steps
        if visit.usefulness >= middles[group.step]:
            columns["chosen_comparisons"][index], columns["chosen_length"][index] = group.comparisons, group.length
    return columns


def rule_columns(
    groups: Sequence[Group], candidate: Candidate, mixture: Mixture
) -> tuple[dict[str, Floats], tuple[float, float] | None]:
    """Values by group of a rule, and (responses, signal) past the log; None where nothing is."""
    gaps = [gap for group in groups if (gap := _length_gap(group)) is not None]
    gap = float(np.mean(gaps)) if gaps else 0.0
    names = ("rule_prompts", "rule_responses", "rule_length", "rule_signal", "rule_rows", "rule_comparisons")
    columns = {name: np.zeros(len(groups)) for name in names}
    beyond, is_beyond = [0.0, 0.0], False
    known: dict[tuple[int, int], Outcome] = {}
    for index, group in enumerate(groups):
        if not sum(group.first):
            continue
        if group.first not in known:
            known[group.first] = outcome(candidate.rule, *group.first, mixture)
        found = known[group.first]
        means = _mean_lengths(group, gap)
        columns["rule_prompts"][index] = 1.0
        columns["rule_responses"][index] = found.positives + found.negatives
        columns["rule_length"][index] = found.positives * means[0] + found.negatives * means[1]
        columns["rule_signal"][index], columns["rule_rows"][index] = found.signal, found.rows
        columns["rule_comparisons"][index] = found.comparisons
        is_beyond |= sum(group.first) < candidate.rule.n_max
        beyond = [beyond[0] + found.responses_beyond, beyond[1] + found.signal_beyond]
    if not is_beyond:
        return columns, None
    responses, signal = float(columns["rule_responses"].sum()), float(columns["rule_signal"].sum())
    return columns, (beyond[0] / responses, beyond[1] / signal if signal else 0.0)


def _mean_lengths(group: Group, gap: float) -> tuple[float, float]:
    """Mean length of a positive and of a negative; of a class that the group lacks, by the usual difference."""
    counts, totals = group.first, group.first_length
    positive = totals[0] / counts[0] if counts[0] else max(totals[1] / counts[1] + gap, 0.0)
    negative = totals[1] / counts[1] if counts[1] else max(positive - gap, 0.0)
    return positive, negative


def by_prompt(columns: Mapping[str, Floats], groups: Sequence[Group], num_prompts: int) -> dict[str, Floats]:
    """Add up the visits of a prompt."""
    prompt_G = np.array([group.prompt for group in groups])
    return {
        name: np.bincount(prompt_G, weights=values, minlength=num_prompts).astype(float)
        for name, values in columns.items()
    }


def general_holes(gathered: Gathered, returning: Sequence[Visit], num_signal: int, order: Order) -> list[Hole]:
    """Return the holes of a log that its format does not imply."""
    groups = gathered.groups
    tests: list[tuple[Callable[[], bool], Hole]] = [
        (
            lambda: num_signal < MIN_PROMPTS,
            Hole(
                f"only {num_signal} prompts with a signal",
                f"with fewer than {MIN_PROMPTS}, figures have no intervals",
                f"{FEW_PROMPTS} prompts in each of 3 steps or more",
            ),
        ),
        (
            lambda: gathered.knows_prompts and not returning,
            Hole(
                "prompts that come back",
                "no prompt was seen twice, so drift and the value of history are unknown",
                "log a second epoch, or more steps of fewer prompts",
            ),
        ),
        (
            lambda: not gathered.tells_gradient,
            Hole(
                "several responses a prompt",
                "it is unknown which tokens gave no gradient, and only the mean of the pass rates is known",
                f"{FEW_RESPONSES} responses a prompt while recording",
            ),
        ),
        (
            lambda: max(group.positives + group.negatives for group in groups) < FEW_RESPONSES,
            Hole(
                f"groups of {FEW_RESPONSES} or more",
                "rules that draw more are extrapolated, and hard prompts look impossible",
                f"{FEW_RESPONSES} responses a prompt while recording, 16 if many prompts are hard",
            ),
        ),
        (
            lambda: order is Order.FINISH,
            Hole(
                "the order of launch",
                "responses are in the order of finishing: if a step ended by a count, short ones are too many",
                "log every response that was started, or count in the order of launch",
            ),
        ),
        (
            lambda: gathered.sampling is Sampling.ADAPTIVE,
            Hole(
                "uniform sampling",
                "the rule stopped by the rewards it saw, so responses are not exchangeable: other rules are "
                "tried on the first block only, or not at all, and raw pass rates are biased",
                "the same number of responses for every prompt while recording",
            ),
        ),
    ]
    return [hole for test, hole in tests if test()]
