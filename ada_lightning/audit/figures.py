"""All figures of one log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from ada_lightning.audit.columns import by_prompt, general_holes, history_columns, log_columns, rule_columns
from ada_lightning.audit.groups import Gathered, gather, visits
from ada_lightning.audit.intervals import MIN_PROMPTS, Estimate, Figure, Floats, Sums, estimate
from ada_lightning.audit.pass_rates import Mixture, fit_mixture, raw_shares
from ada_lightning.audit.records import Cause, Hole, Log, Sampling
from ada_lightning.audit.rules import Candidate, candidates

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
    columns = log_columns(groups, tells_gradient=gathered.tells_gradient)
    columns |= history_columns(groups, returning)
    tried, why_not = _tried(gathered)
    beyond = {}
    for index, candidate in enumerate(tried):
        of_rule, beyond[index] = rule_columns(groups, candidate, mixture)
        columns |= {f"{index}:{name}": values for name, values in of_rule.items()}
    figures = _figures(gathered, bool(returning)) | {
        f"{index}:{name}": figure for index in range(len(tried)) for name, figure in _rule_figures(f"{index}:").items()
    }
    figures |= {f"{LOGGED}:{name}": figure for name, figure in _rule_figures("").items()}
    sums = by_prompt(columns, groups, gathered.num_prompts)
    num_signal = int((sums["signal"] > 0).sum())
    found = estimate(sums, figures, with_intervals=num_signal >= MIN_PROMPTS, seed=seed, num_resamples=num_resamples)
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
        [*general_holes(gathered, returning, num_signal, log.order), *log.holes],
        num_signal,
    )


def _tried(gathered: Gathered) -> tuple[list[Candidate], str]:
    """Rules to try, or why none is."""
    sizes = [sum(group.first) for group in gathered.groups if sum(group.first)]
    if gathered.rewards > 2:
        return [], "rewards take more than two values, and the rules only know right and wrong"
    if not sizes or median(sizes) < 2:
        return [], "most groups have fewer than two graded responses"
    several = {group.num_responses for group in gathered.groups}
    if (
        gathered.sampling is Sampling.ADAPTIVE
        and len(several) > 1
        and sizes == [group.positives + group.negatives for group in gathered.groups if sum(group.first)]
    ):
        return [], (
            "groups differ in size and the log does not say why: if a rule stopped by the rewards it saw, responses "
            "are not exchangeable. Say --sampling uniform if sizes were fixed before anything was drawn"
        )
    return candidates(int(median(sizes)), min(sizes)), ""


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
