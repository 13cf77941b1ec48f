"""What giving up by posterior saves: ``python -m research.benchmarks.giving_up``.

Real collector, sampler and history over several visits to the same prompts, with scripted responses of fixed pass
rates. Per mix of pass rates and price: responses per prompt, completed quotas per thousand responses (the yield), and
the share of visits that complete their quotas.
"""

from __future__ import annotations

import argparse
import random

from ada_lightning.methods.estimators import BetaHistory
from ada_lightning.methods.sampling import BalanceSampler, GiveUpByPosterior
from ada_lightning.methods.selection import BalancedSelection
from research.benchmarks.report import DOCS, save
from research.drive import collect_scripted, scripted_prompts

MIXES = {
    "Beta(0.5, 3): mostly hard": (0.5, 3.0),
    "Beta(1, 1): even": (1.0, 1.0),
    "Beta(0.5, 0.4): extremes": (0.5, 0.4),
}
"""Pass-rate mixes of the reference, section 6.3."""
PRICES = (0.0, 0.25, 0.5, 1.0)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=512)
    parser.add_argument("--visits", type=int, default=6, help="steps, each with all prompts")
    arguments = parser.parse_args()
    rows = []
    for name, (alpha, beta) in MIXES.items():
        generator = random.Random(0)
        pass_rates = [generator.betavariate(alpha, beta) for _ in range(arguments.prompts)]
        for price in PRICES:
            drawn, completed = simulate(pass_rates, price, arguments.visits)
            visits = arguments.prompts * arguments.visits
            figures = {
                "responses_per_prompt": drawn / visits,
                "completed_per_1000": 1000 * completed / drawn,
                "completed_ratio": completed / visits,
            }
            rows.append({"mix": name, "price": price, **figures})
            print(rows[-1], flush=True)
    save("giving_up", folder=DOCS, rows=rows)


def simulate(pass_rates: list[float], price: float, num_visits: int) -> tuple[int, int]:
    """Visit every prompt several times; return responses drawn and quotas completed."""
    give_up = GiveUpByPosterior(price=price)
    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4, give_up=give_up)
    history = BetaHistory()
    prompts = scripted_prompts(len(pass_rates))
    drawn = completed = 0
    for step in range(num_visits):
        groups, stats = collect_scripted(
            prompts,
            pass_rates,
            sampler,
            selection=BalancedSelection(group_size=4),
            step=step,
            policy_version=step,
            beliefs=history.predict(prompts, _no_representation),
        )
        pools = [group.pool for group in groups]
        history.update(pools)
        sampler.learn(pools)
        drawn += stats.num_drawn
        completed += sum(pool.is_resolved for pool in pools)
    return drawn, completed


def _no_representation(prompts: object) -> None:
    raise AssertionError("a history needs no representation")


if __name__ == "__main__":
    main()
