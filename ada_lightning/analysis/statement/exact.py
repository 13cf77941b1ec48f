"""What the exact estimator follows: the objective, as far as the stopping rule supports it."""

from __future__ import annotations

import numpy as np

from ada_lightning.analysis.statement.rules import (
    PASS_RATES,
    differ,
    mean_over_prompts,
    rule_alone,
    rules_by_pass_rate,
    table_lines,
)
from ada_lightning.core.protocols import Objective, Sampler
from ada_lightning.core.stopping.paths import MAX_RESPONSES
from ada_lightning.core.stopping.posterior import PosteriorRule
from ada_lightning.core.stopping.rule import CappedRule, FixedRule, StoppingRule
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.objectives.support import supported_terms, supported_weight
from ada_lightning.methods.sampling.giving_up import GiveUpByPosterior
from ada_lightning.methods.sampling.planned import OneShotSampler


def exact_lines(objective: Objective, sampler: Sampler) -> list[str]:
    """Name the objective, the part of it that the sampler's rule can follow, and prompts for which it is less."""
    rule = rule_alone(sampler)
    if rule is None:
        return [
            f"update: {type(sampler).__name__} stops by more than right and wrong counts, so its objective is unknown"
        ]
    if isinstance(rule, PosteriorRule):  # a resumed run: name the rule of its prompts that are not given up
        rule = rule.quota
    return [
        _headline(objective, rule),
        *_supported_table(objective, rule),
        *_lines_of_other_rules(objective, sampler, rule),
        *_budget_lines(objective, sampler),
    ]


def wanted_weights(objective: Objective) -> list[float]:
    """``f'(p)`` at the table's pass rates."""
    weights: list[float] = objective.weight(np.array(PASS_RATES)).tolist()
    return weights


def _headline(objective: Objective, rule: StoppingRule) -> str:
    text = f"update: increases {mean_over_prompts(objective.formula())}, exactly"
    if supported_terms(objective, rule) == objective.terms(MAX_RESPONSES):
        return text
    return f"{text} as far as {rule.n_max} responses can see: {_followed(objective, rule)}"


def _followed(objective: Objective, rule: StoppingRule) -> str:
    """What the rule supports of an objective that it does not support in full."""
    num_supported = len(supported_terms(objective, rule))
    if num_supported == 0:
        return "f'(p) = 0"
    if isinstance(objective, LogObjective):
        return "f'(p) = 1" if num_supported == 1 else f"f'(p) = (1 - (1-p)^{num_supported}) / p"
    wanted = objective.terms(MAX_RESPONSES)
    is_endless = max(i + j for i, j in wanted) == MAX_RESPONSES
    return f"{num_supported} terms of {'an infinite series' if is_endless else len(wanted)}"


def _supported_table(objective: Objective, rule: StoppingRule) -> list[str]:
    """Figures where the supported part differs; none for the logarithm, whose formula says it."""
    wanted = wanted_weights(objective)
    supported = [supported_weight(objective, rule, rate) for rate in PASS_RATES]
    if isinstance(objective, LogObjective) or not differ(wanted, supported):
        return []
    return table_lines({"f'(p) of the objective": wanted, "f'(p) supported": supported})


def _lines_of_other_rules(objective: Objective, sampler: Sampler, rule: StoppingRule) -> list[str]:
    """What prompts follow whose history gives them another rule."""
    give_up = getattr(sampler, "give_up", None)
    if isinstance(give_up, GiveUpByPosterior) and give_up.price > 0:
        block = sampler.samples_per_round
        shortest = CappedRule(rule, block)  # the series of a rule that gives up after one block of one kind
        if supported_terms(objective, shortest) == supported_terms(objective, rule):
            return []
        return [
            "  prompts that are given up for their history (sampler.give_up) follow a shorter series; "
            f"the shortest, of one block of {block}: {_followed(objective, shortest)}"
        ]
    others = [rule, *(other for other in rules_by_pass_rate(sampler, PASS_RATES) if other is not None)]
    if isinstance(sampler, OneShotSampler):
        others.append(FixedRule(sampler.n_min))  # other beliefs, other plans
    fewest = min(others, key=lambda other: other.n_max)
    most = max(others, key=lambda other: other.n_max)
    if supported_terms(objective, fewest) == supported_terms(objective, most):
        return []
    return [
        "  the history of a prompt sets its number of responses, and so its series: for example "
        f"{_followed(objective, fewest)} with {fewest.n_max}, {_followed(objective, most)} with {most.n_max}"
    ]


def _budget_lines(objective: Objective, sampler: Sampler) -> list[str]:
    if sampler.budget_per_step == 0:
        return []
    return [
        f"  a prompt that sampler.budget_per_step = {sampler.budget_per_step} cuts off follows {objective.formula()} "
        "as far as its responses can see, nearly exactly: where the budget ends depends on the other prompts"
    ]
