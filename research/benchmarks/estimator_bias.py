"""Which objective an update really follows, and how noisily: ``python -m research.benchmarks.estimator_bias``.

Exact sums over every way a prompt's sampling can end, for each combination of sampler, selection and estimator: the
expected factor on grad p against the ``f'(p)`` that was meant, and the noise per generated response. No Monte Carlo.
``--simulate 20000`` then compares every cell with so many prompts run by the real collector. Writes
``docs/estimator_bias.json`` and prints the tables of ``docs/estimators.md``.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ada_lightning.core.protocols import Objective, PoolEnd, Sampler
from ada_lightning.core.records import Belief, Prompt, ResponsePool
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
from research.benchmarks.expected_update import ExactUpdates, Method, measure_updates, scripted_response
from research.benchmarks.report import DOCS
from research.drive import keep, rule_of

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
    """Compute, print, write."""
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
    _print_tables(report)
    if arguments.simulate:
        report["simulated"] = _simulate(cases, arguments.simulate)
    report["cost_ms"] = _cost()
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


def _print_tables(report: dict[str, Any]) -> None:
    print("factor on grad p (in brackets: over the f'(p) that was meant)\n")
    shown = [0.02, 0.1, 0.2, 0.5, 0.8, 0.95]
    columns = [PASS_RATES.index(rate) for rate in shown]
    header = "| sampler / estimator | " + " | ".join(f"p = {rate:g}" for rate in shown) + " |"
    rule = "|---|" + "---|" * len(shown)
    print(header, rule, sep="\n")
    for name, row in report["methods"].items():
        cells = []
        for column in columns:
            multiplier, wanted = row["multiplier"][column], row["wanted"][column]
            ratio = multiplier / wanted
            cells.append(f"{multiplier:.3g} ({ratio:.{6 if row['exact'] else 2}f})")
        print(f"| {name} | {' | '.join(cells)} |")
    print("\nnoise per signal: E[sum of A^2] x responses / multiplier^2, unit-norm scores\n")
    print(header, rule, sep="\n")
    for name, row in report["methods"].items():
        noises = [f"{row['noise_per_signal'][column]:.3g}" for column in columns]
        print(f"| {name} | {' | '.join(noises)} |")


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


def _cost(num_prompts: int = 32) -> dict[str, float]:
    """Milliseconds that the exact estimator takes of a training step: with its tables to build, and with them there."""
    pools = []
    for index in range(num_prompts):  # each prompt with a rule of its own, the dearest case
        sampler = _balance(4, _thrifty())
        pool = ResponsePool(Prompt(f"p{index}", (), prompt_ids=(0,)), index, belief=Belief(1.0 + index, 3.0))
        for place in range(8):
            pool.add(scripted_response(place, is_positive=place % 4 == 0, round_index=place // 4))
        pool.rule = rule_of(sampler, pool)
        pools.append(pool)
    selection = BalancedSelection(group_size=4)
    groups = [keep(selection, pool) for pool in pools]
    advantage = ExactAdvantage(objective=PowerObjective(0.3))  # in no case above, so its tables are not there yet
    seconds = []
    for _ in range(12):
        started = time.perf_counter()
        advantage.assign(groups)
        seconds.append(time.perf_counter() - started)
    cost = {"first": 1e3 * seconds[0], "later": 1e3 * statistics.median(seconds[1:])}
    print(
        f"\nexact estimator, {num_prompts} prompts with a rule each: {cost['first']:.0f} ms with tables to build, "
        f"{cost['later']:.2f} ms a step afterwards"
    )
    return cost


if __name__ == "__main__":
    main()
