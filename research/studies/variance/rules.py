"""Every rule of the study that needs no memory: how a prompt is sampled, what is kept, how that is weighted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from ada_lightning.core.protocols import Advantage, Sampler, Selection
from ada_lightning.core.stopping.paths import ends as ends_of
from ada_lightning.core.stopping.paths import unbiased_table
from ada_lightning.core.stopping.rule import FixedRule, QuotaRule, StoppingRule
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    GroupNormalizedAdvantage,
    LeaveOneOutAdvantage,
    PoolMeanAdvantage,
    StratifiedAdvantage,
)
from ada_lightning.methods.objectives import LinearObjective, LogObjective, PassAtKObjective
from ada_lightning.methods.pass_rates import PoolMeanRate
from ada_lightning.methods.sampling import BalanceSampler, PositiveSampler, SpeedSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection, RarerClassSelection
from research.benchmarks.expected_update import Ends, ExactUpdates, Method
from research.studies.variance.update_moments import ends_with

MOST_PER_CLASS = 32


@dataclass(frozen=True)
class Rule:
    """One combination. The first three name it."""

    sampler: str
    kept: str
    estimator: str
    make: Callable[[], Ends]
    """Computes the ends; some seconds for the largest."""
    has_own_objective: bool = False
    """Whether what it follows is an accident of the rule instead of a chosen objective."""

    @property
    def name(self) -> str:
        """Sampler, kept set, estimator."""
        return f"{self.sampler} / {self.kept} / {self.estimator}"


def exact(objective: str) -> ExactAdvantage:
    """Return the exact estimator of ``p``, ``log p`` or ``pass@4``."""
    known = {"p": LinearObjective(), "log p": LogObjective(), "pass@4": PassAtKObjective(4)}
    return ExactAdvantage(objective=known[objective])


def of_method(sampler: Sampler, selection: Selection, advantage: Advantage) -> Ends:
    """Return the ends of what the project itself samples, keeps and weighs."""
    return ExactUpdates(Method("", sampler, selection, advantage)).ends


def positives_only(rule: StoppingRule, objective: str) -> Ends:
    """Return the ends where positives alone train, with an unbiased estimate of ``f'(p) p`` divided among them.

    ``grad p = p E[s | right]`` needs no negatives. For ``p`` every positive weighs 1 / N under a fixed number of
    responses (REINFORCE without a baseline), for ``log p`` one over the positives (rejection sampling).

    Source:
        RAFT, arXiv:2304.06767, for the logarithm under a fixed number of responses.
    """
    terms = {(1, 0): 1.0} if objective == "p" else {(1, failures): 1.0 for failures in range(rule.n_max)}
    table = unbiased_table(rule, terms)
    points = list(ends_of(rule))
    share_E = np.array([table[point] / max(1, point[0]) for point in points])
    return ends_with(rule, share_E, np.zeros_like(share_E), scope="positives")


def all_rules() -> list[Rule]:
    """Return every rule."""
    return [*_uniform(), *_sequential(), *_sizes(), *_weights(), *_screens()]


def _uniform() -> Iterator[Rule]:
    for size in (2, 4, 8, 16, 32):
        sampler, name = UniformSampler(group_size=size), f"uniform {size}"
        keep_all = partial(of_method, sampler, AllSelection())
        yield Rule(name, "all", "exact p", partial(keep_all, exact("p")))
        if size >= 4:
            yield Rule(name, "all", "exact log p", partial(keep_all, exact("log p")))
            yield Rule(name, "all", "GRPO", partial(keep_all, GroupNormalizedAdvantage()), has_own_objective=True)
        if size >= 8:
            yield Rule(name, "all", "exact pass@4", partial(keep_all, exact("pass@4")))
            for kept, selection in (
                ("2+2", BalancedSelection(group_size=4)),
                ("rarer + as many", RarerClassSelection(max_per_class=MOST_PER_CLASS)),
            ):
                for objective in ("p", "log p"):
                    make = partial(of_method, sampler, selection, exact(objective))
                    yield Rule(name, kept, f"exact {objective}", make)
        for objective in ("p", "log p"):
            yield Rule(name, "positives", f"exact {objective}", partial(positives_only, FixedRule(size), objective))


def _sequential() -> Iterator[Rule]:
    """Seq-balance and Seq-pos with the defaults of the project: blocks of 4, at most 32."""
    for kind, k in [("balance", 1), ("balance", 2), ("balance", 4), ("pos", 1), ("pos", 2), ("pos", 4)]:
        sampler, name, rule = _sampler(kind, k, 4, 32)
        group = 2 * k if kind == "balance" else 4
        for kept, selection in (
            (f"{group // 2}+{group // 2}", BalancedSelection(group_size=group)),
            ("all", AllSelection()),
            ("rarer + as many", RarerClassSelection(max_per_class=MOST_PER_CLASS)),
        ):
            for estimator, advantage in (
                ("official", PoolMeanAdvantage()),
                ("exact p", exact("p")),
                ("exact log p", exact("log p")),
                ("stratified log p", StratifiedAdvantage(objective=LogObjective(), pass_rate=PoolMeanRate())),
            ):
                make = partial(of_method, sampler, selection, advantage)
                is_accident = not estimator.startswith("exact")
                yield Rule(name, kept, estimator, make, has_own_objective=is_accident)
        for objective in ("p", "log p"):
            yield Rule(name, "positives", f"exact {objective}", partial(positives_only, rule, objective))


def _sizes() -> Iterator[Rule]:
    """Block size and largest number of responses, two positives and two negatives wanted."""
    for block, most in [(1, 32), (2, 32), (8, 32), (4, 8), (4, 16), (4, 64), (8, 64)]:
        sampler, name, _ = _sampler("balance", 2, block, most)
        balanced = BalancedSelection(group_size=4)
        yield Rule(
            name, "2+2", "official", partial(of_method, sampler, balanced, PoolMeanAdvantage()), has_own_objective=True
        )
        for objective in ("p", "log p"):
            yield Rule(name, "2+2", f"exact {objective}", partial(of_method, sampler, balanced, exact(objective)))
            yield Rule(name, "all", f"exact {objective}", partial(of_method, sampler, AllSelection(), exact(objective)))


def _weights() -> Iterator[Rule]:
    """The official rule with a weight on top, clipped or shifted."""
    sampler, name, _ = _sampler("balance", 2, 4, 32)
    make = partial(of_method, sampler, BalancedSelection(group_size=4))
    for power, label in ((0.5, "1/sqrt(p)"), (1.0, "1/p")):
        advantage: Advantage = PoolMeanAdvantage(weight_power=power)
        yield Rule(name, "2+2", f"official x {label}", partial(make, advantage), has_own_objective=True)


def _screens() -> Iterator[Rule]:
    for screen, more in ((2, 6), (4, 4), (4, 20), (8, 16)):
        sampler = SpeedSampler(num_screen=screen, num_continue=more, group_size=screen + more)
        name = f"screen {screen}, then {more}"
        for estimator, advantage in (
            ("exact p", exact("p")),
            ("exact log p", exact("log p")),
            ("RLOO", LeaveOneOutAdvantage()),
        ):
            make = partial(of_method, sampler, AllSelection(), advantage)
            yield Rule(name, "all", estimator, make, has_own_objective=estimator == "RLOO")


def _sampler(kind: str, k: int, block: int, most: int) -> tuple[Sampler, str, QuotaRule]:
    size = f"k={k}" if (block, most) == (4, 32) else f"k={k}, blocks of {block}, at most {most}"
    if kind == "balance":
        sampler: Sampler = BalanceSampler(k_pos=k, k_neg=k, samples_per_round=block, n_max=most, group_size=2 * k)
        return sampler, f"Seq-balance {size}", QuotaRule(k, k, block, most)
    sampler = PositiveSampler(k_pos=k, samples_per_round=block, n_max=most, group_size=4)
    return sampler, f"Seq-pos {size}", QuotaRule(k, 0, block, most)
