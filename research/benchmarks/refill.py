"""What filling up a step costs, by the sizes of its waves: ``python -m research.benchmarks.refill``.

The real collector with scripted responses of fixed pass rates and log-normal lengths on an engine of so many slots. One
poll stands for so many decoded tokens of every slot, whatever their number: where an engine decodes few sequences about
as fast as many, as a GPU does, polls are seconds. Every variant trains the same number of groups with a signal.
"""

from __future__ import annotations

import argparse
import random

from ada_lightning.core.records import Belief, Prompt, RefillProgress, SamplingSettings
from ada_lightning.methods.refill import AdaptiveDynamicSampling, DynamicSampling
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.collector import RolloutCollector
from ada_lightning.rollout.engines.scripted import ScriptedEngine, ScriptedGrader
from ada_lightning.rollout.top_up import TopUp
from research.benchmarks.simulation.pass_rates import MIXES


class WaitingWaves(DynamicSampling):
    """The same waves, each after the slowest response of the last: how it is done elsewhere."""

    def next_wave(self, progress: RefillProgress) -> int:
        """Nothing while a group is open."""
        return 0 if progress.num_open else super().next_wave(progress)


VARIANTS = {
    "verl's recipe: 3, 3, waiting": WaitingWaves(oversampling=3, refill_ratio=3, max_ratio=30),
    "3, 3, overlapping": DynamicSampling(oversampling=3, refill_ratio=3, max_ratio=30),
    "1, 1, waiting": WaitingWaves(max_ratio=30),
    "1, 1, overlapping": DynamicSampling(max_ratio=30),
    "1, 1/4, waiting": WaitingWaves(refill_ratio=0.25, max_ratio=30),
    "1, 1/4, overlapping": DynamicSampling(refill_ratio=0.25, max_ratio=30),
    "1, one at a time": DynamicSampling(refill_ratio=0.0, max_ratio=30),
    "2, 1/4, overlapping": DynamicSampling(oversampling=2, refill_ratio=0.25, max_ratio=30),
    "GRESO's: 1.5, adaptive": AdaptiveDynamicSampling(max_ratio=30),
}


class CountingEngine(ScriptedEngine):
    """Counts how often it was asked to go on."""

    total = 0

    def poll(self) -> list:
        """Advance by one."""
        self.total += 1
        return super().poll()


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=32, help="groups with a signal per step")
    parser.add_argument("--group-size", type=int, default=8, help="responses per prompt")
    parser.add_argument("--slots", type=int, default=256, help="sequences that the engine decodes at once")
    parser.add_argument("--steps", type=int, default=20, help="steps of each variant")
    arguments = parser.parse_args()
    for mix in ("step 50", "step 400"):
        rates = dict(enumerate(MIXES[mix].rates(4096, seed=0)))
        print(f"pass rates of the paper's {mix}: per step")
        print(f"  {'first wave, further waves':<32}{'prompts':>9}{'responses':>11}{'unused groups':>15}{'polls':>8}")
        for name, refill in VARIANTS.items():
            prompts, responses, unused, polls = measure(refill, rates, arguments)
            print(f"  {name:<32}{prompts:>9.1f}{responses:>11.0f}{unused:>15.1f}{polls:>8.0f}")


def measure(
    refill: DynamicSampling, rates: dict[int, float], arguments: argparse.Namespace
) -> tuple[float, float, float, float]:
    """Prompts, responses, groups with a signal that were not needed, and polls, per step."""
    prompts = responses = unused = polls = 0
    for step in range(arguments.steps):
        order = random.Random(step).sample(sorted(rates), len(rates))

        def draw(num_drawn: int, num_more: int, order: list[int] = order) -> list[tuple[Prompt, Belief]]:
            keys = order[num_drawn : num_drawn + num_more]
            return [(Prompt(f"p{key}", (), prompt_ids=(key,)), Belief()) for key in keys]

        engine = CountingEngine(
            pass_rates=rates,
            num_polls=lambda generator, is_positive: min(400, int(generator.lognormvariate(3.5, 0.8)) + 1),
            max_num_seqs=arguments.slots,
        )
        top_up = TopUp(refill, arguments.groups, draw, AllSelection())
        groups, stats = RolloutCollector(decode=lambda ids: str(ids[0]), seed=step).collect(
            [prompt for prompt, _ in draw(0, refill.first_wave(arguments.groups))],
            engine=engine,
            grader=ScriptedGrader(),
            sampler=UniformSampler(group_size=arguments.group_size),
            selection=AllSelection(),
            settings=SamplingSettings(max_new_tokens=400),
            stage="train",
            step=step,
            policy_version=0,
            top_up=top_up,
        )
        prompts += stats.num_prompts
        responses += stats.num_drawn
        unused += len(top_up.divide([group.pool for group in groups]).surplus)
        polls += engine.total
    return tuple(total / arguments.steps for total in (prompts, responses, unused, polls))  # type: ignore[return-value]


if __name__ == "__main__":
    main()
