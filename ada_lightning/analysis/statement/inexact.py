"""What the other estimators follow: what can be derived for each of them, and the expected weights as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from ada_lightning.analysis.statement.exact import wanted_weights
from ada_lightning.analysis.statement.rules import PASS_RATES, mean_over_prompts, rules_by_pass_rate, table_lines
from ada_lightning.core.protocols import Advantage, PassRate, Sampler, Selection, Trait
from ada_lightning.core.records import Prompt, Response, ResponseGroup, ResponsePool
from ada_lightning.core.stopping.paths import Point, end_probability, ends
from ada_lightning.core.stopping.rule import FixedRule, QuotaRule, StoppingRule
from ada_lightning.methods.advantages import (
    GroupNormalizedAdvantage,
    HistoryBaselineAdvantage,
    LeaveOneOutAdvantage,
    PoolMeanAdvantage,
    RoundedHistoryAdvantage,
    StratifiedAdvantage,
    WeightedLeaveOneOutAdvantage,
)
from ada_lightning.methods.objectives import LogitObjective
from ada_lightning.methods.pass_rates import FirstRoundRate, LeaveOneOutRate, PoolMeanRate, PosteriorRate
from ada_lightning.methods.published.gdpo import GdpoAdvantage
from ada_lightning.methods.published.max_rl import MaxRlAdvantage
from ada_lightning.methods.published.pods import MaxVarianceSelection
from ada_lightning.methods.published.preference import DpoAdvantage, IpoAdvantage
from ada_lightning.methods.published.raft import AcceptedAdvantage, PositivesSelection
from ada_lightning.methods.published.shrinkage_baseline import ShrinkageBaselineAdvantage
from ada_lightning.methods.published.xrpo import NoveltyAdvantage
from ada_lightning.methods.selection import AllSelection, BalancedSelection, RarerClassSelection

_EVEN = PASS_RATES.index(0.5)
_BY_CLASS = AllSelection | BalancedSelection | MaxVarianceSelection | RarerClassSelection | PositivesSelection
"""Selections that look at nothing but the class, so that expected weights can be summed."""
_EXACT_MEAN = f"update: increases {mean_over_prompts('p')}, exactly"
_MEAN = {"f(p) = p": [1.0] * len(PASS_RATES)}
_LOGIT = {"logit(p)/2 - p": wanted_weights(LogitObjective())}

Rules = Sequence[StoppingRule | None]
Description = tuple[list[str], Mapping[str, Sequence[float]]]
"""The first lines, and what expected weights are to be compared with, by name; empty where they need no table."""
_HISTORY_BASELINES: Mapping[type[Advantage], str] = {
    HistoryBaselineAdvantage: "the pass rate expected",
    RoundedHistoryAdvantage: "0 or 1, whichever is expected",
    ShrinkageBaselineAdvantage: "the pass rate expected (unless the other responses contradict it)",
}
_NEGLIGIBLE = 1e-9
"""Ends less likely than this are left out: with 1000 responses there are thousands of them."""


def inexact_lines(
    advantage: Advantage, sampler: Sampler, selection: Selection, *, is_equal: bool, is_mean: bool
) -> list[str]:
    """Say what is known about an update that is not the exact estimator's.

    ``is_equal``: whether every prompt gets the same number of responses, whatever they are. ``is_mean``: whether the
    loss divides each prompt's sum by a number of responses that was fixed before they were drawn.
    """
    rules = rules_by_pass_rate(sampler, PASS_RATES)
    first = rules[0]
    size = first.n_max if first and is_equal and isinstance(selection, AllSelection) else 0
    if is_mean and not size and (line := _mean_of_own_number(advantage, rules)):
        return [line]
    if isinstance(advantage, StratifiedAdvantage):
        lines, compared = _stratified(advantage, rules)
    elif isinstance(advantage, PoolMeanAdvantage):
        is_balanced = isinstance(selection, BalancedSelection) and all(isinstance(rule, QuotaRule) for rule in rules)
        lines, compared = _pool_mean(advantage, size, is_balanced=is_balanced)
    elif isinstance(advantage, GroupNormalizedAdvantage):
        lines, compared = _group_normalized(advantage, size)
    elif isinstance(advantage, LeaveOneOutAdvantage):
        lines, compared = [_EXACT_MEAN], {}
        if not size:
            lines = [
                "update: advantage = reward minus the mean of the other kept responses; the pool's mean is not used"
            ]
            compared = _MEAN
    elif isinstance(advantage, WeightedLeaveOneOutAdvantage):
        lines, compared = _weighted_leave_one_out(advantage, selection, rules)
    else:
        # What is accepted trains alike, whether the rest is kept or not; all others compare.
        keeps_all = AllSelection | PositivesSelection if isinstance(advantage, AcceptedAdvantage) else AllSelection
        is_whole = is_mean or (is_equal and isinstance(selection, keeps_all))
        lines, compared = other_lines(advantage, size, is_whole=is_whole)
    lines = [*lines, *_first_visit_line(rules, is_equal=is_equal)]
    return lines + (_table(advantage, selection, rules, compared, is_mean=is_mean) if compared else [])


def _mean_of_own_number(advantage: Advantage, rules: Rules) -> str:
    """What a mean over each prompt's own number of responses follows, of advantages that an average is right for."""
    if not all(rule is not None and rule.n_max > 1 for rule in rules):
        return ""
    if isinstance(advantage, LeaveOneOutAdvantage):
        return f"{_EXACT_MEAN}, for any number of responses of a prompt"
    if isinstance(advantage, GroupNormalizedAdvantage) and not advantage.normalize_std:
        return f"{_EXACT_MEAN}, times (n-1)/n with n the number of responses of each prompt"
    return ""


def _first_visit_line(rules: Rules, *, is_equal: bool) -> list[str]:
    """What prompts weigh that come for the first time, where only those have another number of responses."""
    if is_equal or not isinstance(rules[0], FixedRule) or len(set(rules)) > 1:
        return []
    return ["  the first visit of a prompt has another number of responses than later ones, and so another weight"]


def has_fixed_numbers(sampler: Sampler, selection: Selection) -> bool:
    """Whether the number of responses that a prompt trains with is fixed before they are drawn.

    A division by it is a constant of the prompt, which turns nothing; prompts with different numbers differ by it.
    """
    return isinstance(selection, AllSelection) and all(
        isinstance(rule, FixedRule) for rule in rules_by_pass_rate(sampler, PASS_RATES)
    )


def _stratified(advantage: StratifiedAdvantage, rules: Rules) -> Description:
    formula = advantage.objective.formula()
    caveat = _caveat(advantage.pass_rate, stops_by_results=not all(isinstance(rule, FixedRule) for rule in rules))
    estimate = type(advantage.pass_rate).__name__
    lines = [f"update: increases about {mean_over_prompts(formula)}: {estimate} stands in for p{caveat}"]
    return lines, {f"f(p) = {formula}": wanted_weights(advantage.objective)}


def _caveat(pass_rate: PassRate, *, stops_by_results: bool) -> str:
    if isinstance(pass_rate, PosteriorRate):
        return ", and leans towards its prior"
    if isinstance(pass_rate, PoolMeanRate) and stops_by_results:
        return ", and is biased because rewards decide when sampling stops"
    return ", and a function of an unbiased estimate is not unbiased itself"


def _pool_mean(advantage: PoolMeanAdvantage, size: int, *, is_balanced: bool) -> Description:
    power = advantage.weight_power
    if size and not power and not advantage.normalize_std and isinstance(advantage.pass_rate, PoolMeanRate):
        return [_exact_for_mean(size)], {}
    factors = [f"pass rate^-{power:g}"] if power else []
    factors += ["1/(the pool's standard deviation)"] if advantage.normalize_std else []
    times = f", times {' times '.join(factors)}" if factors else ""
    meant = {f"p^-{power:g}": [rate**-power for rate in PASS_RATES]} if power else _MEAN
    if not is_balanced:
        return [f"update: advantage = reward minus the pool's mean{times}"], meant
    lines = [
        f"update: increases roughly {mean_over_prompts('logit(p)/2 - p')}{times}",
        "  keeping as many right as wrong responses weighs prompts by 1/(2p(1-p)) - 1, if both halves are filled"
        + ("; with the factor on top, difficulty counts twice" if power else ""),
    ]
    return lines, meant if power else _LOGIT


def _group_normalized(advantage: GroupNormalizedAdvantage, size: int) -> Description:
    if not size:
        over = " over its standard deviation" if advantage.normalize_std else ""
        return [
            f"update: advantage = reward minus the mean of the kept group{over}; the pool's mean is not used"
        ], _MEAN
    if not advantage.normalize_std:
        return [_exact_for_mean(size)], {}
    return (
        [
            f"update: with large groups it would increase {mean_over_prompts('2 arcsin(sqrt(p))')}, "
            f"f'(p) = 1/sqrt(p(1-p)); these groups have {size} responses"
        ],
        {"1/sqrt(p(1-p))": [(rate * (1.0 - rate)) ** -0.5 for rate in PASS_RATES]},
    )


def _weighted_leave_one_out(advantage: WeightedLeaveOneOutAdvantage, selection: Selection, rules: Rules) -> Description:
    if not all(isinstance(rule, FixedRule) for rule in rules):
        return ["update: increases about the mean reward, biased because rewards decide when sampling ends"], _MEAN
    if not isinstance(advantage.baseline, LeaveOneOutRate):
        return [
            f"update: increases about the mean reward, with {type(advantage.baseline).__name__} as its baseline"
        ], _MEAN
    if isinstance(selection.within, PositivesSelection) or Trait.MAY_DROP_A_CLASS in selection.traits:
        return ["update: increases about the mean reward, without what the selection drops of a class"], _MEAN
    return ["update: increases the mean reward, exactly"], {}


def _exact_for_mean(size: int) -> str:
    """A response in its own baseline takes its share of every prompt's update."""
    return f"{_EXACT_MEAN}, times {size - 1}/{size}"


def _table(
    advantage: Advantage,
    selection: Selection,
    rules: Rules,
    compared: Mapping[str, Sequence[float]],
    *,
    is_mean: bool,
) -> list[str]:
    """Expected weights of prompts relative to one with p = 0.5, which no constant factor of a loss can change."""
    if not depends_on_counts(advantage, selection):
        return []
    weights = summed_weights(advantage, selection, rules, PASS_RATES, is_mean=is_mean)
    if weights is None:
        return ["  sampling stops by more than right and wrong counts, so expected weights cannot be computed"]
    if not weights[_EVEN]:
        return ["  no prompt can have a signal"]
    planned = ", as planned for a step of these four" if len(set(rules)) > 1 else ""
    rows = {"expected here": weights} | dict(compared)
    return [
        f"  weight of a prompt, relative to one with p = 0.5{planned}:",
        *table_lines({name: [value / values[_EVEN] for value in values] for name, values in rows.items()}),
    ]


def depends_on_counts(advantage: Advantage, selection: Selection) -> bool:
    """Whether nothing but right and wrong counts decides what trains, and how."""
    estimate = getattr(advantage, "pass_rate", getattr(advantage, "baseline", None))
    is_of_pool = Trait.COMPARES_POOLS not in selection.traits and isinstance(selection.within, _BY_CLASS)
    return is_of_pool and not isinstance(estimate, FirstRoundRate)


def summed_weights(
    advantage: Advantage, selection: Selection, rules: Rules, pass_rates: Sequence[float], *, is_mean: bool
) -> list[float] | None:
    """Sum the weight of a prompt for each pass rate and its rule; None where a rule is not one of counts.

    ``is_mean``: whether each prompt's sum is divided by its number of responses.
    """
    weights = [0.0] * len(rules)
    for rule in set(rules):
        if rule is None:
            return None
        places = [place for place, each in enumerate(rules) if each == rule]
        rates = [pass_rates[place] for place in places]
        for place, weight in zip(places, expected_weights(advantage, selection, rule, rates), strict=True):
            weights[place] = weight / (max(rule.n_max, 1) if is_mean else 1)
    return weights


def other_lines(advantage: Advantage, size: int, *, is_whole: bool) -> tuple[list[str], Mapping[str, Sequence[float]]]:
    """Describe an estimator.

    Args:
        advantage: the run's estimator.
        size: responses per prompt where all prompts draw the same number and train on all of them; otherwise 0.
        is_whole: whether a prompt trains with all that its advantage is about, and weighs as much as any other.

    Returns:
        The first lines, and rows of weights by name; empty where no table is needed or none can be made.
    """
    mean = {"f(p) = p": [1.0] * len(PASS_RATES)}
    if isinstance(advantage, MaxRlAdvantage):
        if size < 2:
            lines = ["update: advantage = reward over the mean of the kept group, minus 1; the pool's mean is not used"]
            return lines, {"1/p": [1.0 / rate for rate in PASS_RATES]}
        followed = "1" if size == 2 else f"(1 - (1-p)^{size - 1}) / p"
        text = f"update: increases {mean_over_prompts('log p')}, exactly as far as {size} responses can see"
        return [f"{text}: f'(p) = {followed}"], {}
    if isinstance(advantage, AcceptedAdvantage):
        if is_whole:
            return [f"{_EXACT_MEAN}, without a baseline: it sums over accepted responses"], {}
        return ["update: sums over accepted responses, without a baseline"], mean
    for kind, baseline in _HISTORY_BASELINES.items():
        if isinstance(advantage, kind):
            return [_history_baseline(baseline, is_whole=is_whole)], {}
    if isinstance(advantage, DpoAdvantage | IpoAdvantage):
        return [
            f"update: follows no f(p): {type(advantage).__name__} prefers every right response to every wrong one of "
            f"its prompt, beta = {advantage.beta:g} to the initial policy",
            "  a prompt whose responses are all right or all wrong does not train",
        ], {}
    if isinstance(advantage, NoveltyAdvantage):
        over = " over its standard deviation" if advantage.normalize_std else ""
        return [
            f"update: follows no f(p): advantage = reward minus the mean of the kept group{over}, and up to "
            f"{advantage.cap:g} of it more for right answers that are less likely than their group"
        ], {}
    if isinstance(advantage, GdpoAdvantage):
        parts = " + ".join(f"{weight:g} {name}" for name, weight in advantage.weights.items())
        over = "tokens" if advantage.by_tokens else "responses"
        return [
            f"update: follows no f(p): {parts}, each standardised within its group",
            "  the pull of a component depends on how often its group differs in it, not on its scale",
            f"  the sum is centred and scaled over all {over} of a step",
        ], {}
    return [f"update: follows the rule of {type(advantage).__name__}; its objective is not known here"], {}


def _history_baseline(baseline: str, *, is_whole: bool) -> str:
    if is_whole:
        return f"{_EXACT_MEAN}: advantage = reward minus {baseline} from history and the other responses"
    return (
        f"update: advantage = reward minus {baseline} from history and the other kept responses; if their number "
        "differs, or rewards decide which they are, it departs from f(p) = p"
    )


def expected_weights(
    advantage: Advantage, selection: Selection, rule: StoppingRule, pass_rates: Sequence[float]
) -> list[float]:
    """Factor on grad p of a prompt's update, in expectation over its sampling, for each pass rate.

    The scores of positives have mean ``grad p / p``, those of negatives ``-grad p / q``. Neither stopping nor selection
    looks at more than the class. So the factor is ``E[sum of A over kept positives] / p - E[sum of A over kept
    negatives] / q``. It is the sum over a prompt's kept responses, not their mean.

    Args:
        advantage: a function of counts and class. One of the first round is not: its counts are those of the pool here.
            Nor is one of a whole rollout that compares prompts with each other.
        selection: a choice within each class that does not look at the responses.
        rule: by which sampling ends.
        pass_rates: strictly between 0 and 1.

    Example:
        >>> from ada_lightning.methods.advantages import LeaveOneOutAdvantage
        >>> from ada_lightning.methods.selection import AllSelection
        >>> from ada_lightning.core.stopping import FixedRule
        >>> [round(x, 4) for x in expected_weights(LeaveOneOutAdvantage(), AllSelection(), FixedRule(4), [0.1, 0.5])]
        [4.0, 4.0]
    """
    chances = {end: [end_probability(rule, end, rate) for rate in pass_rates] for end in ends(rule)}
    likely = {end: of_rates for end, of_rates in chances.items() if max(of_rates) >= _NEGLIGIBLE}
    groups = [_group(selection, rule, end) for end in likely]
    sums = [_class_sums(group, values) for group, values in zip(groups, advantage.assign(groups), strict=True)]
    return [
        sum(
            of_rates[index] * (of_positives / rate - of_negatives / (1.0 - rate))
            for of_rates, (of_positives, of_negatives) in zip(likely.values(), sums, strict=True)
        )
        for index, rate in enumerate(pass_rates)
    ]


def _class_sums(group: ResponseGroup, advantages: Sequence[float]) -> tuple[float, float]:
    """Add up the advantages of kept positives, and of kept negatives."""
    pairs = list(zip(group.kept, advantages, strict=True))
    positives, negatives = ([a for kept, a in pairs if kept.response.is_positive is label] for label in (True, False))
    return sum(positives), sum(negatives)


def _group(selection: Selection, rule: StoppingRule, end: Point) -> ResponseGroup:
    """What is kept of a pool that ended there."""
    pool = ResponsePool(Prompt("p", (), prompt_ids=(0,)), slot=0)
    for index in range(sum(end)):
        pool.add(_response(index, index < end[0]))
    pool.rule = rule
    return ResponseGroup(pool, selection.select(pool))


@lru_cache(maxsize=4096)
def _response(index: int, is_positive: bool) -> Response:
    return Response(
        prompt_id="p", sample_index=index, round_index=0, response_ids=(0,), sampling_logprobs=(0.0,), text="",
        is_truncated=False, reward=float(is_positive), is_positive=is_positive, policy_version=0,
    )  # fmt: skip
