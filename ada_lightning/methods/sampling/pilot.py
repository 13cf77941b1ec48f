"""What two-round samplers share: a pilot whose positives alone decide how many more responses a prompt gets."""

from __future__ import annotations

from dataclasses import dataclass

from ada_lightning.core.protocols import PoolEnd, Sampler
from ada_lightning.core.records import ResponsePool
from ada_lightning.core.stopping.rule import PilotRule
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.sampling.blocks import DRAWS_PER_RESPONSE


@dataclass(kw_only=True, eq=False)
class PilotSampler(Checked, Sampler):
    """Draws a pilot, then what its positives ask for. Every response of both counts and stays in the pool.

    A prompt goes on as soon as its own pilot is graded, while others are sampled: no round waits for the slowest
    response. A response that is no evidence is drawn anew. The number of responses depends on what they are, so the
    mean of a pool is biased; the stopping rule says exactly how, and ``advantage=exact`` undoes it.

    Raises:
        ValueError: a value out of range; all in one message.
    """

    group_size: int
    """Most responses kept for the update; as many as a prompt can have: all (selection=all)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rule = self.make_rule()
        self.samples_per_round = max(self.rule.num_pilot, self.rule.n_max - self.rule.num_pilot)

    @property
    def most_per_prompt(self) -> int:
        """Both rounds together."""
        return self.rule.n_max

    def make_rule(self) -> PilotRule:
        """Return the responses in all, by positives of the pilot."""
        raise NotImplementedError

    def keeps_at_most(self, most: int) -> Check:
        """Compare ``group_size`` with the most responses of a prompt."""
        return (
            1 <= self.group_size <= most,
            f"group_size must be in [1, {most}], the most responses of a prompt; got {self.group_size}",
        )

    def num_to_draw(self, pool: ResponsePool) -> int:
        """What is missing of the pilot, or of the total that it decided on."""
        total = num_pilot = self.rule.num_pilot
        if pool.num_sampled >= num_pilot:
            total = self.rule.totals[sum(response.is_positive for response in pool.responses[:num_pilot])]
        most_draws = DRAWS_PER_RESPONSE * self.rule.n_max
        return max(0, min(total - pool.num_sampled, most_draws - pool.num_drawn))

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Return the rule that every prompt follows."""
        return PoolEnd(self.rule)
