"""A fixed group for every prompt, as GRPO and its relatives draw it; a larger one at a prompt's first visit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.options import option
from ada_lightning.core.protocols import PoolEnd, Sampler
from ada_lightning.core.records import ResponsePool
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.checked import Check, Checked, at_least


@option("sampler", "uniform")
@dataclass(kw_only=True, eq=False)
class UniformSampler(Checked, Sampler):
    """The same number of responses for every prompt, as GRPO draws them.

    All at once; responses that are no evidence are not drawn anew.
    """

    group_size: int = 4
    """Responses per prompt and step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.samples_per_round = self.group_size

    def _checks(self) -> Iterator[Check]:
        return at_least(1, group_size=self.group_size)

    def num_to_draw(self, pool: ResponsePool) -> int:
        """The whole group, then nothing."""
        return max(0, self.group_size - pool.num_drawn)

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Stop at ``group_size``."""
        return PoolEnd(FixedRule(self.group_size))


@option("sampler", "first_visit")
@dataclass(kw_only=True, eq=False)
class FirstVisitSampler(UniformSampler):
    """More responses for a prompt that was never seen before; this measurement counts as drawn.

    ``num_first`` of such a prompt, ``group_size`` of every other. For estimators that say what they have seen:
    ``beta_history``, ``kl_history``, ``ema``, ``window`` or ``similar_prompts``. All of them count as drawn, in figures
    and budgets, as those of a calibration before the run do not. With ``selection=seen`` first visits measure alone,
    and with ``curriculum.unseen_first=true`` they come before everything else: then the policy that is measured is the
    initial one, except for the last step of it.

    Raises:
        ValueError: a number below 1.

    Source:
        SPO, arXiv:2509.13232, measures the initial policy by 8 responses of every prompt, outside of its budget.
    """

    group_size: int = 1
    """Responses per prompt and step."""
    num_first: int = 8
    """Of a prompt never seen (SPO: 8, of every prompt before the run, in no budget)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.samples_per_round = max(self.num_first, self.group_size)

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield from at_least(1, num_first=self.num_first)

    def num_to_draw(self, pool: ResponsePool) -> int:
        """The whole visit, then nothing."""
        return max(0, self._size(pool) - pool.num_drawn)

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Stop at the size of the visit, which is fixed before its first response."""
        return PoolEnd(FixedRule(self._size(pool)))

    def _size(self, pool: ResponsePool) -> int:
        return self.group_size if pool.belief.is_seen else self.num_first
