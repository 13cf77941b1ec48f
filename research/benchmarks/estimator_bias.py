"""Which objective an update really follows, and how noisily: ``python -m research.benchmarks.estimator_bias``.

Exact sums over every way a prompt's sampling can end, for each combination of sampler, selection and estimator: the
expected factor on grad p against the ``f'(p)`` that was meant, and the noise per generated response. No Monte Carlo.
``--simulate 20000`` then compares every cell with so many prompts run by the real collector. Writes
``docs/estimator_bias.json``; ``python -m research.benchmarks.tables`` makes the tables of ``docs/estimators.md`` of it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ada_lightning.core.protocols import Objective, PoolEnd, Sampler
from ada_lightning.core.records import Belief, ResponsePool
from ada_lightning.core.stopping.rule import CappedRule
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    GroupNormalizedAdvantage,
    LeaveOneOutAdvantage,
    PoolMeanAdvantage,
    StratifiedAdvantage,
)
from ada_lightning.methods.objectives import (
    LinearObjective,
    LogitObjective,
    LogObjective,
    PassAtKObjective,
    PowerObjective,
)
from ada_lightning.methods.objectives.support import supported_weight
from ada_lightning.methods.pass_rates import FirstRoundRate, PathCountingRate, PoolMeanRate, PosteriorRate
from ada_lightning.methods.sampling import BalanceSampler, GiveUpByPosterior, PositiveSampler, UniformSampler
from ada_lightning.methods.sampling.giving_up import NEVER, GivingUp
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from research.benchmarks.expected_update import ExactUpdates, Method, measure_updates
from research.benchmarks.report import DOCS

PASS_RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
SIMULATED_RATES = (0.05, 0.2, 0.5, 0.9)
OBJECTIVES: tuple[Objective, ...] = (
    LinearObjective(),
    LogObjective(),
    PowerObjective(0.5),
    PassAtKObjective(4),
    LogitObjective(),
)
OUTPUT = DOCS / "estimator_bias.json"
FLOAT32_ROUNDING = 1e-6
"""Relative; a sum of at most 32 advantages, each off by 6e-8."""
CUT_AT = 12
"""Responses after which the example of an exhausted step budget cuts a prompt off."""


@dataclass(frozen=True)
class Case:
    """A method and the objective that it means to follow."""

    method: Method
    wanted: Callable[[float], float]
    """``f'(p)``, as far as the rule supports the objective."""
    is_exact: bool
    """Whether it claims to follow it exactly."""


class CutOffSampler(BalanceSampler):
    """Balance sampling in a step whose budget leaves no prompt more than ``CUT_AT`` responses."""

    def num_to_draw(self, pool: ResponsePool) -> int:
        """Refuse what the budget refuses."""
        return super().num_to_draw(pool) if pool.num_sampled < CUT_AT else 0

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Return the rule that really ends pools."""
        return PoolEnd(CappedRule(self.quota, CUT_AT))


def main() -> None:
    """Compute and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulate", type=int, default=0, metavar="N", help="also run N prompts in all")
    arguments = parser.parse_args()
    report: dict[str, Any] = {"pass_rates": PASS_RATES, "methods": {}}
    cases = all_cases()
    for case in cases:
        exact = ExactUpdates(case.method)
        updates = [exact.at(rate) for rate in PASS_RATES]
        report["methods"][case.method.name] = {
            "exact": case.is_exact,
            "multiplier": [update.multiplier for update in updates],
            "wanted": [case.wanted(rate) for rate in PASS_RATES],
            "noise": [update.noise for update in updates],
            "noise_per_signal": [update.noise_per_signal for update in updates],
            "responses": [update.num_sampled for update in updates],
        }
    if arguments.simulate:
        report["simulated"] = _simulate(cases, arguments.simulate)
    OUTPUT.write_text(json.dumps(report, indent=1) + "\n")


def all_cases() -> list[Case]:
    """Every combination of sampler, selection and estimator that the documents speak of."""
    group = BalancedSelection(group_size=4)
    whole = AllSelection()
    balance, balance8, positive = _balance(4), _balance(8), _positive(4)
    cases = [_exact("balance", balance, objective) for objective in OBJECTIVES]
    cases += [_exact("pos", positive, objective) for objective in OBJECTIVES[:2]]
    cases += [_exact("balance, blocks of 8", balance8, LogObjective())]
    for size in (4, 16):
        uniform = UniformSampler(group_size=size)
        cases += [_exact(f"uniform {size}", uniform, objective, whole) for objective in OBJECTIVES[:2]]
    cases += [
        _exact(f"balance, cut off at {CUT_AT}", _sampler(CutOffSampler, 4), LogObjective()),
        _exact("balance, posterior exit, unseen", _balance(4, _thrifty()), LogObjective()),
        _exact("balance, posterior exit, hopeless", _balance(4, _thrifty()), LogObjective(), belief=Belief(0.25, 8.0)),
    ]
    for rate in (PoolMeanRate(), FirstRoundRate(), PosteriorRate(), PathCountingRate()):
        advantage = StratifiedAdvantage(objective=LogObjective(), pass_rate=rate)
        name = f"balance / stratified log p, {type(rate).__name__}"
        cases.append(_case(Method(name, balance, group, advantage), LogObjective()))
    for power, text in ((0.0, ""), (1.0, " x 1/p"), (0.5, " x 1/sqrt(p)")):
        official = PoolMeanAdvantage(weight_power=power)
        wanted: Objective = LogitObjective() if power == 0 else LogObjective()
        for name, sampler in (("balance", balance), ("balance, blocks of 8", balance8), ("pos", positive)):
            cases.append(_case(Method(f"{name} / official{text}", sampler, group, official, scale=1 / 4), wanted))
    uniform4 = UniformSampler(group_size=4)
    for name, other in (
        ("GRPO", GroupNormalizedAdvantage()),
        ("Dr. GRPO", GroupNormalizedAdvantage(normalize_std=False)),
        ("RLOO", LeaveOneOutAdvantage()),
    ):
        cases.append(_case(Method(f"uniform 4 / {name}", uniform4, whole, other, scale=1 / 4), LinearObjective()))
    return cases


def _balance(block: int, give_up: GivingUp = NEVER) -> BalanceSampler:
    return _sampler(BalanceSampler, block, give_up)


def _sampler(kind: type[BalanceSampler], block: int, give_up: GivingUp = NEVER) -> BalanceSampler:
    return kind(k_pos=2, k_neg=2, samples_per_round=block, n_max=32, group_size=4, give_up=give_up)


def _positive(block: int) -> PositiveSampler:
    return PositiveSampler(k_pos=1, samples_per_round=block, n_max=32, group_size=4)


def _thrifty() -> GivingUp:
    """A run that has paid ten responses per completed quota so far."""
    give_up = GiveUpByPosterior(price=0.5, explore_ratio=0.0)
    give_up.load_state_dict({"num_resolved": 100.0, "num_drawn": 1000.0})
    return give_up


def _exact(
    name: str, sampler: Sampler, objective: Objective, selection: Any = None, belief: Belief | None = None
) -> Case:
    method = Method(
        f"{name} / exact {objective.formula()}",
        sampler,
        selection or BalancedSelection(group_size=4),
        ExactAdvantage(objective=objective),
        belief=belief or Belief(),
    )
    rule = method.rule()
    return Case(method, lambda rate: supported_weight(objective, rule, rate), is_exact=True)


def _case(method: Method, objective: Objective) -> Case:
    return Case(method, lambda rate: float(objective.weight(np.asarray(rate))), is_exact=False)


def deviations(cases: Sequence[Case], prompts_per_rate: int) -> dict[str, float]:
    """Run the real collector and compare every cell with its exact sum, in standard errors of the mean."""
    measured = measure_updates([case.method for case in cases], SIMULATED_RATES, prompts_per_rate=prompts_per_rate)
    scores = {}
    for case in cases:
        exact = ExactUpdates(case.method)
        for rate in SIMULATED_RATES:
            expected, spread = exact.at(rate), exact.standard_deviation_at(rate)
            for quantity in ("multiplier", "noise", "num_sampled"):
                target = getattr(expected, quantity)
                # Where an outcome is certain nothing varies but the rounding of advantages.
                error = max(getattr(spread, quantity) / math.sqrt(prompts_per_rate), FLOAT32_ROUNDING * abs(target))
                difference = getattr(measured[case.method.name, rate], quantity) - target
                scores[f"{case.method.name} at {rate:g}: {quantity}"] = difference / error
    return scores


def deviation_limit(num_cells: int) -> float:
    """Standard errors that the largest of so many cells exceeds by chance once in a thousand (Bonferroni)."""
    return statistics.NormalDist().inv_cdf(1 - 0.001 / (2 * num_cells))


def _simulate(cases: Sequence[Case], num_prompts: int) -> dict[str, Any]:
    samplers = {(id(case.method.sampler), id(case.method.selection), case.method.belief) for case in cases}
    per_rate = num_prompts // (len(SIMULATED_RATES) * len(samplers))
    scores = deviations(cases, per_rate)
    limit = deviation_limit(len(scores))
    worst = max(scores, key=lambda name: abs(scores[name]))
    print(
        f"\nreal collector, {per_rate} prompts per sampler and pass rate: {len(scores)} cells, largest deviation "
        f"{abs(scores[worst]):.2f} standard errors ({worst}); limit for all cells together {limit:.2f}"
    )
    return {"prompts_per_rate": per_rate, "cells": len(scores), "worst": worst, "z": scores[worst], "limit": limit}


if __name__ == "__main__":
    main()
