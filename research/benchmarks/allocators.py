"""Every rollout allocator at the same number of responses: ``python -m research.benchmarks.allocators``.

The real collector and samplers with scripted responses of fixed pass rates. Every method has the same memory: what
one visit of 8 responses to each prompt has told (``beta_history``). Each mix of pass rates is sampled for several
steps; the spread over steps gives the intervals. Reported for each method:

- groups with a signal (rewards that differ) per 1,000 responses;
- the variance of the estimated gradient of the mean pass rate over prompts, at equal numbers of responses, as a
  multiple of that of uniform groups of 8. The estimator is the exact one for f(p) = p under the method's own stopping
  rule, on the whole pool, so that all methods estimate the same gradient (a method that draws nothing for some prompts,
  or stops before it has seen both classes, estimates what it can see). Scores have unit variance and do not depend on
  the reward (assumption 4.1 of VIP, arXiv:2602.01601). A step with half as many responses per prompt has twice as many
  prompts, so the variance is the mean over prompts of ``E[sum of A^2]``, times responses per prompt. Methods that stop
  by more than counts (GVM, XRPO) use leave-one-out on the pool, which is then not quite unbiased.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hydra.utils import instantiate

from ada_lightning.core.protocols import Sampler
from ada_lightning.core.records import Belief, Prompt, ResponseGroup
from ada_lightning.methods.advantages import ExactAdvantage, LeaveOneOutAdvantage
from ada_lightning.methods.estimators import BetaHistory
from ada_lightning.methods.objectives import LinearObjective
from ada_lightning.methods.sampling import UniformSampler
from research.benchmarks.report import save
from research.benchmarks.simulation.pass_rates import MIXES
from research.drive import advantages, collect_scripted, composed

METHODS: dict[str, tuple[str, ...]] = {
    "uniform, 4": ("sampler=uniform", "sampler.group_size=4"),
    "uniform, 8": ("sampler=uniform", "sampler.group_size=8"),
    "uniform, 16": ("sampler=uniform", "sampler.group_size=16"),
    "Ada-Seq-pos": ("sampler=positive",),
    "Ada-Seq-balance": ("sampler=balance",),
    "Ada-Seq-balance, posterior": ("sampler=balance_posterior",),
    "Ada-Est": ("sampler=estimated",),
    "VIP, RLOO": ("sampler=vip",),
    "VIP, Dr.GRPO": ("sampler=vip", "sampler.variance._target_=ada_lightning.methods.sampling.DrGrpoVariance"),
    "Knapsack": ("sampler=knapsack",),
    "CoBA-RL": ("sampler=coba",),
    "GVM, G = 1": ("sampler=gvm", "sampler/gradient_norm=constant"),
    "DARS-ET": ("sampler=dars_et",),
    "DARS-HW": ("sampler=dars_hw",),
    "XRPO": ("sampler=xrpo",),
    "Pilot-Commit": ("sampler=pilot_commit",),
    "SPEED-RL": ("sampler=speed",),
}
"""Settings of each, on top of those that ship."""
MIX_NAMES = ("step 50", "step 400", "wide")
BASE = "uniform, 8"
_MEMORY = 8  # responses of the visit that beliefs come from


def main() -> None:
    """Simulate, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=512, help="per step")
    parser.add_argument("--steps", type=int, default=8, help="of each method and mix, at least 2")
    arguments = parser.parse_args()
    rows = []
    for mix in MIX_NAMES:
        rates = MIXES[mix].rates(arguments.prompts, seed=0)
        beliefs = remembered(rates)
        for name in METHODS:
            sampler = sampler_of(name)
            steps = [simulate(sampler, rates, beliefs, step) for step in range(arguments.steps)]
            rows.append({"mix": mix, "method": name} | {key: interval([s[key] for s in steps]) for key in steps[0]})
            print(
                mix, name, {key: value for key, value in rows[-1].items() if key not in ("mix", "method")}, flush=True
            )
    save("allocators", prompts=arguments.prompts, steps=arguments.steps, rows=rows)


def remembered(rates: Sequence[float]) -> list[Belief]:
    """Return what an estimator believes after one visit with 8 responses to each prompt."""
    estimator = BetaHistory()
    groups = collect(UniformSampler(group_size=_MEMORY), rates, [Belief()] * len(rates), step=10_000)
    estimator.update([group.pool for group in groups])
    return list(estimator.predict([group.pool.prompt for group in groups], _no_model))


def sampler_of(name: str) -> Sampler:
    """Make a method's sampler with the values that ship."""
    sampler: Sampler = instantiate(composed("train", METHODS[name]).sampler)
    return sampler


def simulate(sampler: Sampler, rates: Sequence[float], beliefs: Sequence[Belief], step: int) -> dict[str, float]:
    """Return one step's figures: responses per prompt, signals per 1,000 responses, second moment times responses."""
    groups = collect(sampler, rates, beliefs, step)
    num_drawn = sum(group.pool.num_drawn for group in groups)
    num_signal = sum(group.pool.has_signal for group in groups)
    moment = statistics.fmean(second_moments(groups))
    return {
        "responses_per_prompt": num_drawn / len(groups),
        "signals_per_1000": 1000 * num_signal / num_drawn,
        "variance": moment * num_drawn / len(groups),
    }


def collect(
    sampler: Sampler, rates: Sequence[float], beliefs: Sequence[Belief], step: int
) -> tuple[ResponseGroup, ...]:
    """Run one step of the real collector."""
    prompts = [Prompt(str(index), (), prompt_ids=(index,)) for index in range(len(rates))]
    groups, _ = collect_scripted(
        prompts, rates, sampler, settings=1, seed=1, step=step, beliefs=beliefs, positive_threshold=0.5
    )
    return groups


def second_moments(groups: Sequence[ResponseGroup]) -> list[float]:
    """Return the sum of squared advantages of every prompt, for an estimate of the gradient of its pass rate."""
    exact, plain = ExactAdvantage(objective=LinearObjective()), LeaveOneOutAdvantage()
    moments = []
    for group in groups:
        if not group.has_signal:
            moments.append(0.0)
            continue
        is_exact = group.pool.rule is not None
        advantages_B = advantages(exact, [group]) if is_exact else advantages(plain, [group]) / len(group.kept)
        moments.append(float(np.sum(advantages_B**2)))
    return moments


def interval(values: Sequence[float]) -> dict[str, float]:
    """Mean over steps and its standard error."""
    return {"mean": statistics.fmean(values), "error": statistics.stdev(values) / math.sqrt(len(values))}


def relative(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Variance of each row as a multiple of uniform groups of 8 of the same mix, with its standard error."""
    found = []
    for row in rows:
        (base,) = [other["variance"] for other in rows if (other["mix"], other["method"]) == (row["mix"], BASE)]
        ratio = row["variance"]["mean"] / base["mean"]
        errors = [part["error"] / part["mean"] for part in (row["variance"], base)]
        error = 0.0 if row["method"] == BASE else ratio * math.hypot(*errors)
        found.append(dict(row) | {"relative_variance": {"mean": ratio, "error": error}})
    return found


def _no_model(prompts: Sequence[Prompt]) -> Any:
    raise AssertionError("this estimator needs no representation")


if __name__ == "__main__":
    main()
