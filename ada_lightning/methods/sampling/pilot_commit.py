"""Pilot-Commit: a pilot for every candidate, the rest of the budget for those with spread rewards (arXiv:2605.26606).

Claim: group methods learn most where rewards vary, so a pilot that measures it pays. Assumption: the pilot's pass rate
is close to what a full group would find. Degenerate case: pilots that are all skipped or deferred leave a step without
an update; the pilots are paid for all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.stopping.rule import PilotRule
from ada_lightning.methods.checked import Check, at_least
from ada_lightning.methods.sampling.pilot import PilotSampler


@dataclass(kw_only=True, eq=False)
class PilotCommitSampler(PilotSampler):
    """``num_pilot`` responses; ``num_commit`` more where their pass rate lies in ``[min_rate, max_rate]``.

    Below, the prompt is too hard for now and *deferred*: it comes back when its turn comes, as in the authors' code,
    where it simply waits for the next epoch. Above, it is *skipped*. Neither trains (``selection=resolved``). Whether
    mastered prompts come back is a matter of the curriculum, which sees the pilots through the estimator: their code
    evicts prompts whose pilot was all right, ``curriculum=difficulty_band`` with ``low=0`` lets them come last.

    The candidates are the step's prompts: the authors draw three times as many as they train on, until enough passed,
    and keep what passed too much for up to four later steps. Here a step trains on what passed, on-policy.

    Source:
        Kim et al., arXiv:2605.26606; databricks/pilot-commit at 8ca7605: ``recipe/pc/pc_ray_trainer.py``
        (``filter_batch``, whose thresholds are inclusive) and ``train_scripts/pc_qwen3-4b_p16c48.sh``.

    Example:
        >>> sampler = PilotCommitSampler(num_pilot=4, num_commit=12, min_rate=0.125, max_rate=0.75, group_size=16)
        >>> sampler.rule.totals
        (4, 16, 16, 16, 4)
    """

    num_pilot: int
    """Responses that decide."""
    num_commit: int
    """Further responses of a prompt that passes."""
    min_rate: float
    """Lowest pass rate of the pilot that passes."""
    max_rate: float
    """Highest."""

    def _checks(self) -> Iterator[Check]:
        yield from at_least(1, num_pilot=self.num_pilot, num_commit=self.num_commit)
        yield (
            0 <= self.min_rate <= self.max_rate <= 1,
            f"min_rate and max_rate must be 0 <= min_rate <= max_rate <= 1; got {self.min_rate} and {self.max_rate}",
        )
        yield (
            any(self._passes()),
            f"no pilot of {self.num_pilot} has a pass rate in [{self.min_rate}, {self.max_rate}]; widen the band or "
            "use a larger num_pilot",
        )
        yield self.keeps_at_most(self.num_pilot + self.num_commit)

    def make_rule(self) -> PilotRule:
        """Go on after pilots inside the band."""
        totals = (self.num_pilot + self.num_commit * passes for passes in self._passes())
        return PilotRule(tuple(totals), is_screen=True)

    def _passes(self) -> list[bool]:
        size = max(self.num_pilot, 1)
        return [self.min_rate <= positives / size <= self.max_rate for positives in range(self.num_pilot + 1)]
