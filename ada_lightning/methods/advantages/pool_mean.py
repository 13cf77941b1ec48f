"""The official rule of Reinforce-Ada: reward minus the mean of the whole pool, with an optional explicit weight."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Advantage, PassRate, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.functional import kept_rewards, unbiased_std
from ada_lightning.methods.pass_rates import PoolMeanRate

_POOL_MEAN = PoolMeanRate()
_SMALLEST_RATE = 1e-6
"""Keeps ``p^-power`` finite where the rate is 0. By the pool's mean all advantages are 0 there."""


@dataclass(kw_only=True, eq=False)
class PoolMeanAdvantage(Checked, Advantage):
    """Centers each reward on the mean over every response sampled for its prompt, not over the few kept.

    With balanced selection the kept group's own mean would be 1/2 for every prompt and erase difficulty.
    Balanced selection also changes what is optimised: the expected update is that of ``logit(p)/2 - p``, not of ``p``.
    The paper's prose multiplies by ``1/p`` on top, which then counts the difficulty twice.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, Algorithm 2, line 19 and the text below it; Algorithm 1, line 15 (Est);
        RLHFlow/Reinforce-Ada at 05be605, ``core_algos.py`` L262-373 with ``global_stat_est`` on.
    """

    traits = frozenset({Trait.COMPARES_DRAWN})

    normalize_std: bool = False
    """Also divide by the pool's standard deviation (unbiased, plus 1e-6). The official script does not."""
    weight_power: float = 0.0
    """Multiply by ``p^-power``: 0 is the official code, 1 the prose of the paper for Seq, 1/2 its Est."""
    max_weight: float = math.inf
    """Largest such factor."""
    pass_rate: PassRate = _POOL_MEAN
    """The baseline, and what the weight is computed from. The paper's is the pool's mean, which is 0 only where nothing
    was right and all advantages are 0; the mean of the first round may be 0 where a later one found a positive, and
    gets ``max_weight`` there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pass_rate.is_known_before:  # history holds the baseline
            self.traits = frozenset({Trait.TRAINS_EQUAL_REWARDS, Trait.IS_UNCENTRED})

    def _checks(self) -> Iterator[Check]:
        yield self.weight_power >= 0, f"advantage.weight_power must not be negative; got {self.weight_power}"
        yield (
            self.max_weight >= 1,
            f"advantage.max_weight must be at least 1 (.inf sets no limit); got {self.max_weight}",
        )
        yield (
            self.weight_power <= 0 or self.max_weight < math.inf or not self.pass_rate.may_be_zero,
            f"advantage.weight_power = {self.weight_power} takes a power of {type(self.pass_rate).__name__}, which is "
            "0 in some pools that hold a positive, where the weight would have no bound; set advantage.max_weight "
            "(sampler.n_max to that power is the most that the pool's mean could give), or use "
            "ada_lightning.methods.pass_rates.PoolMeanRate",
        )

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return ``(r - mean) * min(mean^-power, max_weight)``, over the std if asked. Shape ``(G,)``.

        Raises:
            ValueError: there is a power to take of a rate that negative rewards have made negative, or 0 although
                rewards differ.
        """
        rate = np.asarray(self.pass_rate(group))
        drawn = [response.reward for response in group.pool.responses]
        advantages = kept_rewards(group) - rate
        if self.weight_power > 0:
            has_no_power = (rate < 0) | ((rate <= 0) & (sum(drawn) <= 0))
            if np.any(has_no_power & (advantages != 0)):
                raise ValueError(
                    f"advantage.weight_power = {self.weight_power} takes a power of a pool's pass rate, which is "
                    f"{rate.min():g} in a pool whose rewards differ; use advantage.weight_power=0 with "
                    "negative rewards"
                )
            weight = np.maximum(rate, _SMALLEST_RATE) ** -self.weight_power
            advantages = advantages * np.minimum(weight, self.max_weight)
        return advantages / (unbiased_std(drawn) + 1e-6 if self.normalize_std else 1.0)
