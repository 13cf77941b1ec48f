"""All figures of one log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.audit.groups import Gathered, Group, gather
from ada_lightning.audit.history import Visit, visits
from ada_lightning.audit.intervals import MIN_PROMPTS, Estimate, Figure, Sums, estimate
from ada_lightning.audit.pass_rates import Mixture, fit_mixture, raw_shares
from ada_lightning.audit.records import Cause, Hole, Log, Order, Sampling
from ada_lightning.audit.rules import Candidate, Outcome, candidates, outcome

LOGGED = "as logged"
"""Name of the row of the rule that the log was written with."""
RULE_FIGURES = (
    "responses",
    "length",
    "signal",
    "rows",
    "signal_per_1k",
    "comparisons_per_1k",
    "versus_logged",
)
FEW_RESPONSES = 8
FEW_PROMPTS = 200
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RuleRow:
    """One rule, per prompt that is asked."""

    name: str
    responses: Estimate
    length: Estimate
    """In the log's unit."""
    signal: Estimate
    """Share of prompts whose rewards differ."""
    signal_per_1k: Estimate
    """Such prompts per 1,000 units of length."""
    comparisons_per_1k: Estimate
    """Effective comparisons of right with wrong responses per 1,000 units of length: what groups of two cannot buy by
    being many."""
    versus_logged: Estimate | None
    """``comparisons_per_1k`` over that of the log, on the same resamples; None for the log itself."""
    rows: Estimate
    """Responses that train, where all of a group with both classes do."""
    is_extrapolated: bool = False
    responses_beyond: float = 0.0
    """Share of its responses that the log does not have."""
    signal_beyond: float = 0.0


@dataclass(frozen=True)
class Audit:
    """Everything that a page says of a log."""

    log: Log
    gathered: Gathered
    figures: dict[str, Estimate]
    """By name: ``no_gradient``, ``lost:<cause>``, ``pass_rate``, ``signal``, ``pq``, ``length_gap``, ``truncated``,
    ``change``, ``spread``, ``half_life``, ``gain``, ``chosen_versus_returning`` ..."""
    rules: list[RuleRow]
    why_no_rules: str
    """Why other rules were not tried; empty where they were."""
    mixture: Mixture
    raw: list[float]
    """Raw shares of groups by class of difficulty."""
    holes: list[Hole]
    num_signal_prompts: int

    @property
    def has_intervals(self) -> bool:
        """Whether enough prompts have a signal."""
        return self.num_signal_prompts >= MIN_PROMPTS

    @property
    def steps(self) -> tuple[int, int, int]:
        """First step, last step, how many."""
        found = {group.step for group in self.gathered.groups}
        return min(found), max(found), len(found)


def audit(
    log: Log,
    *,
    threshold: float | None = None,
    sampling: Sampling | None = None,
    seed: int = 0,
    num_resamples: int = 2000,
) -> Audit:
    """Compute every figure of a log.

    Args:
        log: of a reader.
        threshold: rewards above it count as right; see :func:`~ada_lightning.audit.groups.gather`.
        sampling: overrides what the log says or seems to.
        seed: of the resampling.
        num_resamples: of prompts, for the intervals.
    """
    gathered = gather(log, threshold=threshold, sampling=sampling)
    groups = gathered.groups
    counts = [(group.positives, group.negatives) for group in groups]
    mixture = fit_mixture(counts)
    returning = visits(groups) if gathered.knows_prompts else []
    columns = _columns(groups)
    columns |= _history_columns(groups, returning)
    tried, why_not = _tried(gathered)
    beyond = {}
    for index, candidate in enumerate(tried):
        found, beyond[index] = _rule_columns(groups, candidate, mixture)
        columns |= {f"{index}:{name}": values for name, values in found.items()}
    figures = _figures(gathered, bool(returning)) | {
        f"{index}:{name}": figure for index in range(len(tried)) for name, figure in _rule_figures(f"{index}:").items()
    }
    figures |= {f"{LOGGED}:{name}": figure for name, figure in _rule_figures("").items()}
    by_prompt = _by_prompt(columns, groups, gathered.num_prompts)
    num_signal = int((by_prompt["signal"] > 0).sum())
    found = estimate(
        by_prompt, figures, with_intervals=num_signal >= MIN_PROMPTS, seed=seed, num_resamples=num_resamples
    )
    rules = [_rule_row(LOGGED, f"{LOGGED}:", found, None)]
    rules += [_rule_row(candidate.name, f"{index}:", found, beyond[index]) for index, candidate in enumerate(tried)]
    return Audit(
        log,
        gathered,
        {name: value for name, value in found.items() if ":" not in name or name.startswith("lost:")},
        rules,
        why_not,
        mixture,
        raw_shares(counts),
        [*_general_holes(gathered, returning, num_signal, log.order), *log.holes],
        num_signal,
    )


def _columns(groups: Sequence[Group]) -> dict[str, Floats]:
    """Values by group that figures of the log itself are made of."""
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
    return {name: np.asarray(values, float) for name, values in rows.items()}


def _length_gap(group: Group) -> float | None:
    """Mean length of positives minus that of negatives; None without both."""
    if not group.positives or not group.negatives:
        return None
    return group.positive_length / group.positives - group.negative_length / group.negatives


def _history_columns(groups: Sequence[Group], returning: Sequence[Visit]) -> dict[str, Floats]:
    """Values by group of what its prompt's earlier visits tell; 0 for a first visit."""
    by_group = {id(visit.group): visit for visit in returning}
    middles: dict[int, float] = {}
    for step in {visit.group.step for visit in returning}:
        middles[step] = median(visit.usefulness for visit in returning if visit.group.step == step)
    names = ("moved", "moves", "num_steps", "gain", "returns", "returning_comparisons", "returning_length")
    names += ("chosen_comparisons", "chosen_length")
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


def _rule_columns(
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
    total = float(columns["rule_responses"].sum()), float(columns["rule_signal"].sum())
    return columns, tuple(part / whole if whole else 0.0 for part, whole in zip(beyond, total, strict=True))  # type: ignore[return-value]


def _mean_lengths(group: Group, gap: float) -> tuple[float, float]:
    """Mean length of a positive and of a negative; of a class that the group lacks, by the usual difference."""
    counts, totals = group.first, group.first_length
    positive = totals[0] / counts[0] if counts[0] else max(totals[1] / counts[1] + gap, 0.0)
    negative = totals[1] / counts[1] if counts[1] else max(positive - gap, 0.0)
    return positive, negative


def _tried(gathered: Gathered) -> tuple[list[Candidate], str]:
    """Rules to try, or why none is."""
    sizes = [sum(group.first) for group in gathered.groups if sum(group.first)]
    if gathered.rewards > 2:
        return [], "rewards take more than two values; rules of right and wrong ignore what differs beyond"
    if not sizes or median(sizes) < 2:
        return [], "most groups have fewer than two graded responses"
    several = {group.num_responses for group in gathered.groups}
    if (
        gathered.sampling is Sampling.ADAPTIVE
        and len(several) > 1
        and sizes == [group.positives + group.negatives for group in gathered.groups if sum(group.first)]
    ):
        return [], (
            "groups differ in size and the log does not say why: where a rule stopped by what it saw, the "
            "responses are not "
            "exchangeable. Say --sampling uniform if sizes were fixed before anything was drawn"
        )
    return candidates(int(median(sizes)), min(sizes)), ""


def _by_prompt(columns: Mapping[str, Floats], groups: Sequence[Group], num_prompts: int) -> dict[str, Floats]:
    """Add up the visits of a prompt."""
    prompt_G = np.array([group.prompt for group in groups])
    return {name: np.bincount(prompt_G, weights=values, minlength=num_prompts) for name, values in columns.items()}


def _ratio(numerator: str, denominator: str, scale: float = 1.0) -> Figure:
    return lambda sums: scale * sums[numerator] / sums[denominator]


def _figures(gathered: Gathered, returns: bool) -> dict[str, Figure]:
    figures = {
        "no_gradient": _ratio("no_gradient", "length"),
        "signal": _ratio("signal", "prompts"),
        "pass_rate": _ratio("pass_rate", "graded"),
        "pq": _ratio("pq", "paired"),
        "spread": _spread,
        "length_gap": _ratio("gap", "both"),
    }
    figures |= {f"lost:{cause.name}": _ratio(f"lost:{cause.name}", "length") for cause in Cause}
    if all(group.num_truncated is not None for group in gathered.groups):
        figures["truncated"] = _ratio("truncated", "responses")
    if returns:
        figures |= {
            "change": _ratio("moved", "moves"),
            "steps_between": _ratio("num_steps", "moves"),
            "half_life": lambda sums: _spread(sums) * sums["num_steps"] / sums["moved"],
            "gain": _ratio("gain", "returns"),
            "returning_comparisons_per_1k": _ratio("returning_comparisons", "returning_length", 1000.0),
            "chosen_comparisons_per_1k": _ratio("chosen_comparisons", "chosen_length", 1000.0),
            "chosen_versus_returning": lambda sums: (
                (sums["chosen_comparisons"] / sums["chosen_length"])
                / (sums["returning_comparisons"] / sums["returning_length"])
            ),
        }
    return figures


def _spread(sums: Sums) -> Floats:
    """Variance of the pass rate between prompts: chance that two responses of one are right, less that of any two."""
    return sums["square"] / sums["paired"] - (sums["pass_rate"] / sums["graded"]) ** 2


def _rule_figures(prefix: str) -> dict[str, Figure]:
    """Of the rule whose columns have the prefix; of the log itself without one."""
    rule = f"{prefix}rule_" if prefix else ""

    def per_1k(sums: Sums, of: str = rule) -> Floats:
        return 1000.0 * sums[f"{of}comparisons"] / sums[f"{of}length"]

    return {
        "responses": _ratio(f"{rule}responses", f"{rule}prompts"),
        "length": _ratio(f"{rule}length", f"{rule}prompts"),
        "signal": _ratio(f"{rule}signal", f"{rule}prompts"),
        "rows": _ratio(f"{rule}rows", f"{rule}prompts"),
        "signal_per_1k": _ratio(f"{rule}signal", f"{rule}length", 1000.0),
        "comparisons_per_1k": per_1k,
        "versus_logged": lambda sums: per_1k(sums) / per_1k(sums, ""),
    }


def _rule_row(name: str, prefix: str, found: Mapping[str, Estimate], beyond: tuple[float, float] | None) -> RuleRow:
    parts: dict[str, Any] = {key: found[f"{prefix}{key}"] for key in RULE_FIGURES}
    if name == LOGGED:
        parts["versus_logged"] = None
    return RuleRow(
        name,
        **parts,
        is_extrapolated=beyond is not None,
        responses_beyond=beyond[0] if beyond else 0.0,
        signal_beyond=beyond[1] if beyond else 0.0,
    )


def _general_holes(gathered: Gathered, returning: Sequence[Visit], num_signal: int, order: Order) -> list[Hole]:
    """What any log may lack, whatever wrote it."""
    groups = gathered.groups
    tests: list[tuple[Callable[[], bool], Hole]] = [
        (
            lambda: num_signal < MIN_PROMPTS,
            Hole(
                f"only {num_signal} prompts with a signal",
                f"with fewer than {MIN_PROMPTS} there are figures and no intervals",
                f"{FEW_PROMPTS} prompts in each of 3 steps or more",
            ),
        ),
        (
            lambda: gathered.knows_prompts and not returning,
            Hole(
                "prompts that come back",
                "no prompt was seen twice: nothing is said of drift or of what history foretells",
                "log a second epoch, or more steps of fewer prompts",
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
                "responses stand in the order of finishing: where a step was cut by count, short ones are too many",
                "log every response that was started, or count in the order of launch",
            ),
        ),
        (
            lambda: gathered.sampling is Sampling.ADAPTIVE,
            Hole(
                "uniform sampling",
                "a rule that stopped by what it saw leaves responses that are not exchangeable: other rules are "
                "tried on "
                "the first block alone, or not at all, and pass rates by raw counts are biased",
                "the same number of responses for every prompt while recording",
            ),
        ),
    ]
    return [hole for test, hole in tests if test()]
