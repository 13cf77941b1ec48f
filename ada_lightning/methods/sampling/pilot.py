"""What two-round samplers share: a pilot whose positives alone decide how many more responses a prompt gets."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import PoolEnd, Sampler
from ada_lightning.core.records import ResponsePool
from ada_lightning.core.stopping.pilot import PilotRule
from ada_lightning.methods.sampling.blocks import DRAWS_PER_RESPONSE


class PilotSampler(Sampler):
    """Draws a pilot, then what its positives ask for. Every response of both counts and stays in the pool.

    A prompt goes on as soon as its own pilot is graded, beside the pilots of others: no round waits for the slowest
    response. A response that is no evidence is drawn anew. The number of responses depends on what they are, so the
    mean of a pool is biased; the stopping rule says exactly how, and ``advantage=exact`` undoes it.

    Args:
        rule: responses in all, by positives of the pilot.
        n_max: most responses of a prompt, whatever the rule makes of it.
        group_size: most responses kept for the update.
        errors: what is wrong with the arguments that the rule was made of.

    Raises:
        ValueError: ``group_size`` out of range, and ``errors``; all in one message.
    """

    def __init__(self, rule: PilotRule, *, n_max: int, group_size: int, errors: Sequence[str] = ()) -> None:
        errors = list(errors)
        if not errors and not 1 <= group_size <= n_max:
            errors.append(f"group_size must be in [1, {n_max}], the most responses of a prompt; got {group_size}")
        if errors:
            raise ValueError("; ".join(errors))
        self.rule = rule
        self.n_max = n_max
        self.group_size = group_size
        self.samples_per_round = max(rule.num_pilot, rule.n_max - rule.num_pilot)

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
