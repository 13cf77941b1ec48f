"""Every rollout allocator at the same number of responses: ``python -m research.benchmarks.allocators``.

The real collector and samplers with scripted responses of fixed pass rates, lengths and wrong answers. Every method has
the same memory: what one visit of 8 responses to each prompt has told (``beta_history``), lengths included. Each mix of
pass rates is sampled for several steps; the spread over steps gives the intervals. Responses of a prompt have one
length, longer where the pass rate is lower (:func:`lengths`); a wrong one gives one of five answers
(:data:`WRONG_ANSWERS`). Reported for each method:

- groups with a signal (rewards that differ) per 1,000 responses;
- the variance of the estimated gradient of the mean pass rate over prompts, at equal numbers of responses, as a
  multiple of that of uniform groups of 8. The estimator is the exact one for f(p) = p under the method's own stopping
  rule, on the whole pool, so that all methods estimate the same gradient (a method that draws nothing for some prompts,
  or stops before it has seen both classes, estimates what it can see). Scores have unit variance and do not depend on
  the reward (assumption 4.1 of VIP, arXiv:2602.01601). A step with half as many responses per prompt has twice as many
  prompts, so the variance is the mean over prompts of ``E[sum of A^2]``, times responses per prompt. Methods that stop
  by more than counts (GVM, XRPO, C-GRPO) use leave-one-out on the pool, which is then not quite unbiased. Those that
  take their baseline from history (:data:`HISTORY`) have their own advantage, which trains lone responses too;
- the same variance at equal numbers of tokens.

C-GRPO's calibration, drawn from the first prompts and taken not to train, is spread over the steps that it serves.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from hydra.utils import instantiate

from ada_lightning.core.protocols import Advantage, Sampler
from ada_lightning.core.records import Belief, Completion, Prompt, ResponseGroup, SamplingSettings, Verdict
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    HistoryBaselineAdvantage,
    LeaveOneOutAdvantage,
    RoundedHistoryAdvantage,
)
from ada_lightning.methods.estimators import BetaHistory
from ada_lightning.methods.objectives import LinearObjective
from ada_lightning.methods.published.cgrpo import CGrpoSampler
from ada_lightning.methods.sampling import UniformSampler
from research.benchmarks.report import save
from research.benchmarks.simulation.pass_rates import MIXES
from research.drive import advantages, collect, composed, scripted_prompts
from research.scripted import POSITIVE_TOKEN, ScriptedEngine, ScriptedGrader

_BY_TOKENS = ("sampler.by_tokens=true",)
_TOKEN_DIVISION = (
    "sampler=vip",
    "sampler.variance._target_=ada_lightning.methods.published.token_division.KnownBaselineVariance",
    "sampler.n_min=1",
)

METHODS: dict[str, tuple[str, ...]] = {
    "uniform, 4": ("sampler=uniform", "sampler.group_size=4"),
    "uniform, 8": ("sampler=uniform", "sampler.group_size=8"),
    "uniform, 16": ("sampler=uniform", "sampler.group_size=16"),
    "Ada-Seq-pos": ("sampler=positive",),
    "Ada-Seq-balance": ("sampler=balance",),
    "Ada-Seq-balance, posterior": ("sampler=balance_posterior",),
    "Ada-Est": ("sampler=estimated",),
    "VIP, RLOO": ("sampler=vip",),
    "VIP, Dr.GRPO": ("sampler=vip", "sampler.variance._target_=ada_lightning.methods.published.vip.DrGrpoVariance"),
    "Knapsack": ("sampler=knapsack",),
    "CoBA-RL": ("sampler=coba",),
    "GVM, G = 1": ("sampler=gvm", "sampler/gradient_norm=constant"),
    "DARS-ET": ("sampler=dars_et",),
    "DARS-HW": ("sampler=dars_hw",),
    "XRPO": ("sampler=xrpo",),
    "Pilot-Commit": ("sampler=pilot_commit",),
    "SPEED-RL": ("sampler=speed",),
    "C-GRPO": ("sampler=cgrpo",),
    "VIP, RLOO, by tokens": ("sampler=vip", *_BY_TOKENS),
    "Knapsack, by tokens": ("sampler=knapsack", *_BY_TOKENS),
    "GVM, G = 1, by tokens": ("sampler=gvm", "sampler/gradient_norm=constant", *_BY_TOKENS),
    "uniform, 1, history": ("sampler=uniform", "sampler.group_size=1"),
    "uniform, 4, history": ("sampler=uniform", "sampler.group_size=4"),
    "rarer class, 1": ("sampler=uniform", "sampler.group_size=1"),
    "division, history": _TOKEN_DIVISION,
    "token division, history": (*_TOKEN_DIVISION, *_BY_TOKENS),
}
"""Settings of each, on top of those that ship."""
HISTORY: dict[str, Advantage] = {
    "uniform, 1, history": HistoryBaselineAdvantage(),
    "uniform, 4, history": HistoryBaselineAdvantage(),
    "rarer class, 1": RoundedHistoryAdvantage(),
    "division, history": HistoryBaselineAdvantage(),
    "token division, history": HistoryBaselineAdvantage(),
}
"""Methods whose baseline comes from history, with their advantage."""
WRONG_ANSWERS = (0.5, 0.2, 0.1, 0.1, 0.1)
"""How often a wrong response gives each of five answers."""
PROMPTS_PER_STEP = 32
"""Of the run that a calibration is spread over."""
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
        world = World.of(MIXES[mix].rates(arguments.prompts, seed=0))
        for name in METHODS:
            steps = simulate(name, world, arguments.steps)
            rows.append({"mix": mix, "method": name} | {key: interval([s[key] for s in steps]) for key in steps[0]})
            print(
                mix, name, {key: value for key, value in rows[-1].items() if key not in ("mix", "method")}, flush=True
            )
    save("allocators", prompts=arguments.prompts, steps=arguments.steps, rows=rows)


@dataclass(frozen=True)
class World:
    """Prompts, and what one earlier visit of each has told."""

    rates: Sequence[float]
    lengths: Sequence[int]
    """Tokens of every response, by prompt."""
    visited: Sequence[ResponseGroup] = ()
    beliefs: Sequence[Belief] = ()

    @classmethod
    def of(cls, rates: Sequence[float]) -> World:
        """Visit prompts of these pass rates once."""
        bare = cls(rates, lengths(rates), beliefs=[Belief()] * len(rates))
        visited = bare.collect(UniformSampler(group_size=_MEMORY), step=10_000)
        estimator = BetaHistory()
        estimator.update([group.pool for group in visited])
        beliefs = estimator.predict([group.pool.prompt for group in visited], _no_model)
        return replace(bare, visited=visited, beliefs=list(beliefs))

    def collect(self, sampler: Sampler, step: int, num_prompts: int | None = None) -> tuple[ResponseGroup, ...]:
        """Run one step of the real collector, with the first prompts or all of them."""
        prompts = scripted_prompts(len(self.rates))[:num_prompts]
        engine = AnsweringEngine(self.rates, self.lengths)
        groups, _ = collect(
            prompts, sampler, engine=engine, grader=AnsweringGrader(), settings=1, seed=1, step=step,
            beliefs=self.beliefs[: len(prompts)], positive_threshold=0.5,
        )  # fmt: skip
        return groups


def lengths(rates: Sequence[float]) -> list[int]:
    """Return how long the responses to each prompt are: 60 (2 - p) tokens, times a lognormal factor of 0.4."""
    generator = random.Random(2)
    return [max(1, round(60 * (2 - rate) * math.exp(generator.gauss(0, 0.4)))) for rate in rates]


class AnsweringEngine(ScriptedEngine):
    """Responses as long as their prompt says, and wrong ones with an answer each: the first token tells it."""

    def __init__(self, rates: Sequence[float], num_tokens: Sequence[int]) -> None:
        super().__init__(pass_rates=dict(enumerate(rates)))
        self._num_tokens = num_tokens

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Decide the response now."""
        super().submit(request_id, prompt_ids, settings, seed)
        due, drawn = self._running[request_id]
        first, length = drawn.response_ids[0], self._num_tokens[prompt_ids[0]]
        if first != POSITIVE_TOKEN:
            wrong = random.Random(f"answer/{seed}").choices(range(len(WRONG_ANSWERS)), WRONG_ANSWERS)[0]
            first = POSITIVE_TOKEN + 1 + wrong
        ids, logprobs = (first,) + (0,) * (length - 1), (-0.5,) * length
        self._running[request_id] = due, replace(drawn, response_ids=ids, sampling_logprobs=logprobs)


class AnsweringGrader(ScriptedGrader):
    """Tells the answer too, which is the text."""

    def submit(self, ticket: Any, prompt: Prompt, completion: Completion) -> None:
        """Grade one response."""
        self._ready.append((ticket, Verdict(float(completion.text == str(POSITIVE_TOKEN)), answer=completion.text)))


def sampler_of(name: str) -> Sampler:
    """Make a method's sampler with the values that ship."""
    sampler: Sampler = instantiate(_settings_of(name))
    return sampler


@cache
def _settings_of(name: str) -> Any:
    return composed("train", METHODS[name]).sampler


def simulate(name: str, world: World, num_steps: int) -> list[dict[str, float]]:
    """Return each step's figures: responses and tokens per prompt, signals per 1,000 responses, variances."""
    sampler = sampler_of(name)
    extra = calibrated(sampler, world)
    sampler.learn([group.pool for group in world.visited])  # lengths; a calibration is done, and counts a step
    found = []
    for step in range(num_steps):
        groups = world.collect(sampler, step)
        drawn = [group.pool.num_drawn for group in groups]
        per_prompt = statistics.fmean(drawn) + extra
        tokens = statistics.fmean(map(float, np.multiply(drawn, world.lengths))) + extra * statistics.fmean(
            world.lengths
        )
        moment = statistics.fmean(second_moments(groups, HISTORY.get(name)))
        num_signal = sum(group.pool.has_signal for group in groups)
        found.append(
            {
                "responses_per_prompt": per_prompt,
                "tokens_per_prompt": tokens,
                "signals_per_1000": 1000 * num_signal / len(groups) / per_prompt,
                "variance": moment * per_prompt,
                "variance_by_tokens": moment * tokens,
            }
        )
    return found


def calibrated(sampler: Sampler, world: World) -> float:
    """Calibrate what needs it; return the responses that this takes for each prompt of the steps that it serves."""
    if not isinstance(sampler, CGrpoSampler):
        return 0.0
    groups = world.collect(sampler, step=20_000, num_prompts=sampler.num_calibration)
    sampler.learn([group.pool for group in groups])
    return sum(group.pool.num_drawn for group in groups) / (sampler.recalibrate_every * PROMPTS_PER_STEP)


def second_moments(groups: Sequence[ResponseGroup], rule: Advantage | None = None) -> list[float]:
    """Return the sum of squared advantages of every prompt, for an estimate of the gradient of its pass rate.

    Args:
        groups: of a step.
        rule: the method's own advantage, where it has a baseline without the group.
    """
    exact, plain = ExactAdvantage(objective=LinearObjective()), LeaveOneOutAdvantage()
    moments = []
    for group in groups:
        if rule is not None:
            advantages_B = advantages(rule, [group]) / max(len(group.kept), 1)
        elif not group.has_signal:
            advantages_B = np.zeros(0)
        elif group.pool.rule is not None:
            advantages_B = advantages(exact, [group])
        else:
            advantages_B = advantages(plain, [group]) / len(group.kept)
        moments.append(float(np.sum(advantages_B**2)))
    return moments


def interval(values: Sequence[float]) -> dict[str, float]:
    """Mean over steps and its standard error."""
    return {"mean": statistics.fmean(values), "error": statistics.stdev(values) / math.sqrt(len(values))}


def relative(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Variances of each row as a multiple of uniform groups of 8 of the same mix, with their standard errors."""
    bases = {row["mix"]: row for row in rows if row["method"] == BASE}
    return [
        dict(row)
        | {
            f"relative_{key}": _ratio(row[key], bases[row["mix"]][key], is_base=row["method"] == BASE)
            for key in ("variance", "variance_by_tokens")
        }
        for row in rows
    ]


def _ratio(figure: Mapping[str, float], base: Mapping[str, float], *, is_base: bool) -> dict[str, float]:
    ratio = figure["mean"] / base["mean"]
    errors = [part["error"] / part["mean"] for part in (figure, base)]
    return {"mean": ratio, "error": 0.0 if is_base else ratio * math.hypot(*errors)}


def _no_model(prompts: Sequence[Prompt]) -> Any:
    raise AssertionError("this estimator needs no representation")


if __name__ == "__main__":
    main()
