"""DARS: more responses for prompts whose first ones say that they are hard (arXiv:2508.13755, equations of ET and HW).

Claim: the sum of absolute advantages of a prompt's group, which group methods silently weight prompts by, is restored
for hard prompts, so that they are no longer neglected. Assumption: the loss sums over responses (constant or token
mean); one that averages within a prompt undoes it. Degenerate case: a prompt with half of its pilot right or more gets
nothing further; one with nothing right is taken for half a right response.

Fidelity: faithful. Groups without signal stay in the denominator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ada_lightning.core.options import option, preset
from ada_lightning.core.stopping.rule import PilotRule
from ada_lightning.methods.checked import Check
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.pilot import PilotSampler
from ada_lightning.methods.selection import AllSelection


@option("sampler", "dars_et", group_size="${.n_max}")
@dataclass(kw_only=True, eq=False)
class DarsSampler(PilotSampler):
    """DARS, equal treatment: more for prompts with less than half of their pilot right (arXiv:2508.13755).

    They get responses until their absolute advantages add up to those of an even prompt. Values are those of
    yangzhch6/DARS, ``experiments/DARS-1.5B-ET-Breadth.sh``. With p the pilot's pass rate, n responses have ``n S(p)``
    of it: ``S = 2 sqrt(p (1-p))`` where advantages are divided by their standard deviation, ``2 p (1-p)`` where not. An
    even prompt's pilot has ``A = N S(1/2)``. *Equal treatment* (ET) raises every prompt with p < 1/2 to A, *hardness
    weighted* (HW) to ``2 (1-p) A``.

    Source:
        Yang et al., arXiv:2508.13755; authors' code ``ray_dars_trainer.py`` (``schedule_ET``, ``schedule_HW``). Rounded
        up in exact arithmetic here: 7.5 / (15 / 128) is 64 responses, and in floating point it may be 65.

    Example:
        >>> sampler = DarsSampler(
        ...     num_pilot=8, n_max=32, hardness_weighted=False, normalize_std=True, group_size=32
        ... )
        >>> sampler.rule.totals  # 9, 5, 2 and 1 more for 0 to 3 right ones of 8
        (17, 13, 10, 9, 8, 8, 8, 8, 8)
    """

    num_pilot: int = 8
    """Responses of the first round (N; rollout.n of the script)."""
    n_max: int = 32
    """Most responses of a prompt, both rounds together (n_max of the scripts: 32 for ET, 64 for HW)."""
    hardness_weighted: bool = False
    """HW instead of ET: times 2 (1 - pass rate), so hard prompts get up to twice what evens them out."""
    normalize_std: bool = False
    """Whether the advantage that goes with it divides by the standard deviation (``grpo`` does, ``dr_grpo`` not;
    script: it does not)."""
    group_size: int = 32

    def _checks(self) -> Iterator[Check]:
        yield self.num_pilot >= 2, f"num_pilot must be at least 2, so that responses can differ; got {self.num_pilot}"
        yield (
            self.n_max >= self.num_pilot,
            f"n_max = {self.n_max} is less than num_pilot = {self.num_pilot}; raise n_max",
        )
        yield self.keeps_at_most(self.n_max)

    def make_rule(self) -> PilotRule:
        """Apply ET or HW, up to ``n_max``."""
        totals = (
            _total(positives, self.num_pilot, self.hardness_weighted, self.normalize_std)
            for positives in range(self.num_pilot + 1)
        )
        return PilotRule(tuple(min(self.n_max, total) for total in totals))


preset(
    "sampler",
    "dars_hw",
    "dars_et",
    text="DARS, hardness weighted: hard prompts get up to twice the absolute advantage of an even one "
    "(arXiv:2508.13755; values of yangzhch6/DARS, experiments/DARS-1.5B-HW-Breadth.sh).",
    n_max=64,
    hardness_weighted=True,
)


def _total(positives: int, num_pilot: int, hardness_weighted: bool, normalize_std: bool) -> int:
    """Return the least n with ``n S(p) >= target``, at least the pilot. Exact: both sides are compared squared."""
    rate = Fraction(positives, num_pilot) if positives else Fraction(1, 2 * num_pilot)
    if rate >= Fraction(1, 2):
        return num_pilot
    target = (2 * (1 - rate) if hardness_weighted else Fraction(1)) * num_pilot
    spread = rate * (1 - rate)
    if not normalize_std:  # S(1/2) is 1/2 here and 1 there
        return max(num_pilot, math.ceil(target / 2 / (2 * spread)))
    squared = target**2 / (4 * spread)  # of target / S
    root = math.isqrt(squared.numerator // squared.denominator)
    return max(num_pilot, root if Fraction(root) ** 2 == squared else root + 1)


DARS_ET = known(
    Recipe(
        name="dars_et",
        card=Card(
            table="responses",
            changes="draws a second round where less than half are right",
            needs="a loss that sums over responses",
            cost="8 to 32",
            fidelity="faithful",
            departs="Groups without a signal stay in the denominator.",
            also=("dars_hw",),
        ),
        checked=Comparison(
            rule="the size of the second round",
            against="by hand",
            test="unit/methods/sampling/test_pilot.py::test_golden_values_of_dars",
            also=("dars_hw",),
        ),
        text="""
            DARS with equal treatment (arXiv:2508.13755): prompts with less than half of the first round right get a
            second one. The whole pool trains. Advantages are mean-centred and summed over responses (their scripts: no
            standard deviation, a constant length). advantage=exact goes with it, too: it undoes what the second round
            does to the objective.
        """,
        sampler=DarsSampler,
        selection=AllSelection,
        advantage="dr_grpo",
    )
)
DARS_HW = known(
    Recipe(
        name="dars_hw",
        text="""
            DARS, hardness weighted (arXiv:2508.13755): as dars_et, with up to twice as much for hard prompts. Their
            step has 3072 prompts (data.prompts_per_step).
        """,
        sampler="dars_hw",
        selection=AllSelection,
        advantage="dr_grpo",
    )
)
