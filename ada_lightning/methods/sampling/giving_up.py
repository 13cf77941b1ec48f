"""Decides whether and when a prompt without enough signal is given up before its cap."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.core.protocols import Part
from ada_lightning.core.records import ResponsePool
from ada_lightning.core.stopping.posterior import PosteriorRule
from ada_lightning.core.stopping.rule import QuotaRule, StoppingRule
from ada_lightning.methods.checked import Check, Checked

_GRID_PER_OCTAVE = 4
"""Beliefs and rates are rounded to this many values per factor of two, so that few path tables are needed."""


class GivingUp(Part):
    """Turns a prompt's quota rule into the rule that its sampling really follows."""

    def rule(self, quota: QuotaRule, pool: ResponsePool) -> StoppingRule:
        """Return the rule for a prompt; a function of its belief, slot and step, not of its responses."""
        return quota

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Learn from a finished step."""


class NeverGiveUp(GivingUp):
    """Sample until the quotas are met or the cap is reached, as published."""


NEVER = NeverGiveUp()
"""It holds no state, so all samplers can share it."""


@dataclass(kw_only=True, eq=False)
class GiveUpByPosterior(Checked, GivingUp):
    """Give a prompt up once a signal from it is expected to cost more than the run usually pays.

    The prospect is completed quotas per response under the prompt's Beta belief and its responses so far
    (:class:`~ada_lightning.core.stopping.posterior.PosteriorRule`). The usual rate is what the run's recent steps
    achieved. Leaving where the marginal return falls under the average return maximises the return of the whole search
    (Charnov 1976, "Optimal foraging: the marginal value theorem"). A ``price`` below 1 stays longer, for the sake of
    hard prompts. Rates are per response; with one mean length for all prompts, per token is the same.

    No prompt is lost: each visit draws at least one block, forgetting in the estimator brings old verdicts back into
    doubt, and a share of visits ignores the posterior.
    """

    price: float = 0.25
    """Share of the run's recent completed quotas per response below which a prompt is given up. 0 never does."""
    explore_ratio: float = 0.05
    """Share of visits that follow the plain quota rule."""
    memory: float = 0.9
    """Share of the recent average that survives a step."""
    seed: int = 0
    """Of the choice of visits that explore."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._num_resolved = self._num_drawn = 0.0

    def _checks(self) -> Iterator[Check]:
        yield self.price >= 0, f"`give_up.price` must not be negative; got {self.price}"
        yield 0 <= self.explore_ratio <= 1, f"give_up.explore_ratio must be in [0, 1]; got {self.explore_ratio}"
        yield 0 <= self.memory < 1, f"give_up.memory must be in [0, 1); got {self.memory}"

    def rule(self, quota: QuotaRule, pool: ResponsePool) -> StoppingRule:
        """Return the posterior rule; the quota rule in the first step, where nothing is known, and when exploring."""
        if self.price == 0 or self._num_drawn == 0 or self._explores(pool):
            return quota
        min_rate = self.price * self._num_resolved / self._num_drawn
        if min_rate == 0:
            return quota
        return PosteriorRule(quota, _on_grid(pool.belief.alpha), _on_grid(pool.belief.beta), _on_grid(min_rate))

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Update what a completed quota usually costs."""
        self._num_resolved = self.memory * self._num_resolved + sum(pool.is_resolved for pool in pools)
        self._num_drawn = self.memory * self._num_drawn + sum(pool.num_drawn for pool in pools)

    def state_dict(self) -> dict[str, Any]:
        """The recent average."""
        return {"num_resolved": self._num_resolved, "num_drawn": self._num_drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._num_resolved = float(state.get("num_resolved", 0.0))
        self._num_drawn = float(state.get("num_drawn", 0.0))

    def _explores(self, pool: ResponsePool) -> bool:
        key = f"{self.seed}/{pool.step}/{pool.slot}/{pool.prompt.prompt_id}"
        return random.Random(key).random() < self.explore_ratio


def _on_grid(value: float) -> float:
    return 2.0 ** (round(math.log2(value) * _GRID_PER_OCTAVE) / _GRID_PER_OCTAVE)
