"""What dividing a step costs: ``python -m research.benchmarks.planning``.

Plans steps of 512 and 8,192 prompts of all pass rates, 16 responses per prompt, with every sampler that divides by
beliefs, and prints the median processor time of five. For comparison: the rollout phase of such a step, at a length of
responses and a rate of tokens that are arguments.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.sampling import CobaSampler, EstimatedSampler, KnapsackSampler, RlooVariance, VipSampler
from ada_lightning.methods.sampling.one_shot import OneShotSampler

MEAN = 16
"""Responses per prompt."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, nargs="+", default=[512, 8192], help="sizes of a step")
    parser.add_argument("--response-tokens", type=int, default=512, help="mean length of a response")
    parser.add_argument("--tokens-per-second", type=float, default=50_000.0, help="of the engines together")
    arguments = parser.parse_args()
    samplers: list[OneShotSampler] = [
        EstimatedSampler(responses_per_prompt=MEAN),
        VipSampler(responses_per_prompt=MEAN, variance=RlooVariance()),
        KnapsackSampler(responses_per_prompt=MEAN),
        KnapsackSampler(responses_per_prompt=MEAN, official_dp_quirk=True),
        CobaSampler(responses_per_prompt=MEAN),
        CobaSampler(responses_per_prompt=MEAN, official_buckets=True),
    ]
    print(f"{'sampler':<28}{'prompts':>9}{'plan, ms':>10}{'of a rollout':>14}")
    for num_prompts in arguments.prompts:
        pools = _pools(num_prompts)
        rollout_s = num_prompts * MEAN * arguments.response_tokens / arguments.tokens_per_second
        for sampler in samplers:
            seconds = _median_seconds(sampler, pools)
            options = [name for name in ("official_dp_quirk", "official_buckets") if getattr(sampler, name, False)]
            name = type(sampler).__name__ + "".join(f" {option.partition('_')[0]}" for option in options)
            print(f"{name:<28}{num_prompts:>9,}{1000 * seconds:>10.1f}{seconds / rollout_s:>14.4%}")


def _pools(num_prompts: int) -> list[ResponsePool]:
    """One prompt in ten has never passed, one in ten always."""
    generator = random.Random(0)
    rates = [min(max(1.25 * generator.random() - 0.125, 0.0), 1.0) for _ in range(num_prompts)]
    return [
        ResponsePool(Prompt(str(slot), ()), slot, belief=Belief(1 + 16 * rate, 17 - 16 * rate, 16.0, 16 * rate))
        for slot, rate in enumerate(rates)
    ]


def _median_seconds(sampler: OneShotSampler, pools: list[ResponsePool]) -> float:
    seconds = []
    for _ in range(5):
        start = time.process_time()
        sampler.plan(pools)
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
