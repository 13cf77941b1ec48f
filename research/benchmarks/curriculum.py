"""Which prompts carry a signal, and at what price: ``python -m research.benchmarks.curriculum``.

Real curricula, samplers, collector and history over the steps of a run, with scripted responses of fixed pass rates: no
policy learns here, so nothing is said about how fast one would. The mixes of pass rates are those fitted to the paper's
runs (``research.benchmarks.simulation.pass_rates``) and a wide one. Writes ``docs/curriculum.json``; then
``python -m research.benchmarks.tables`` makes the table of ``docs/curriculum.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from ada_lightning.core.protocols import Curriculum, Sampler, Selection
from ada_lightning.methods.curriculum import DifficultyBand, PosteriorSampling, SignalPerResponse, UniformCurriculum
from ada_lightning.methods.estimators import BetaHistory
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from research.benchmarks.report import DOCS, save
from research.benchmarks.simulation.pass_rates import MIXES as PUBLISHED_MIXES
from research.drive import collect_scripted, scripted_prompts

MIXES = {
    "paper, step 50": PUBLISHED_MIXES["step 50"],
    "paper, step 400": PUBLISHED_MIXES["step 400"],
    "wide": PUBLISHED_MIXES["wide"],
}
SAMPLERS: dict[str, Callable[[], tuple[Sampler, Selection]]] = {
    "uniform, 4": lambda: (UniformSampler(group_size=4), AllSelection()),
    "balance, 4 to 32": lambda: (
        BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4),
        BalancedSelection(group_size=4),
    ),
}
CURRICULA: dict[str, Callable[[Sampler], Curriculum]] = {
    "uniform": lambda sampler: UniformCurriculum(),
    "difficulty_band": lambda sampler: DifficultyBand(),
    "posterior": lambda sampler: PosteriorSampling(usefulness=SignalPerResponse(sampler=sampler)),
}


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=512, help="training prompts")
    parser.add_argument("--per-step", type=int, default=32, help="prompts of a step")
    parser.add_argument(
        "--epochs", type=int, default=4, help="prompts drawn over training prompts; the first is not counted"
    )
    arguments = parser.parse_args()
    rows = []
    for mix, distribution in MIXES.items():
        pass_rates = distribution.rates(arguments.prompts, seed=0)
        for sampler in SAMPLERS:
            for curriculum in CURRICULA:
                figures = simulate(pass_rates, sampler, curriculum, arguments.per_step, arguments.epochs)
                rows.append({"mix": mix, "sampler": sampler, "curriculum": curriculum, **figures})
                print(rows[-1], flush=True)
    save("curriculum", folder=DOCS, **vars(arguments), rows=rows)


def simulate(
    pass_rates: Sequence[float], sampler_name: str, curriculum_name: str, per_step: int, num_epochs: int
) -> dict[str, Any]:
    """Run the steps of some epochs; count those after the first, in which every curriculum has little to go by."""
    sampler, selection = SAMPLERS[sampler_name]()
    curriculum = CURRICULA[curriculum_name](sampler)
    history = BetaHistory()
    prompts = scripted_prompts(len(pass_rates))
    steps_per_epoch = len(prompts) // per_step
    visits = drawn = signal = 0
    counts = dict.fromkeys((prompt.prompt_id for prompt in prompts), 0)
    for step in range(num_epochs * steps_per_epoch):
        chosen = curriculum.choose(prompts, per_step, step=step, seed=0, recall=history.recall)
        groups, stats = collect_scripted(
            chosen,
            pass_rates,
            sampler,
            selection=selection,
            step=step,
            policy_version=step,
            beliefs=history.recall(chosen),
        )
        pools = [group.pool for group in groups]
        history.update(pools)
        sampler.learn(pools)
        if step >= steps_per_epoch:
            visits += len(pools)
            drawn += stats.num_drawn
            signal += sum(pool.has_signal for pool in pools)
            for pool in pools:
                counts[pool.prompt.prompt_id] += 1
    return {
        "signal_ratio": signal / visits,
        "responses_per_prompt": drawn / visits,
        "signal_per_1000_responses": 1000 * signal / drawn,
        "visited_ratio": sum(count > 0 for count in counts.values()) / len(counts),
        "most_visits": max(counts.values()),
    }


if __name__ == "__main__":
    main()
