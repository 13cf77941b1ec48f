"""SPEED-RL: screen every prompt with a few responses, go on only where they differ (arXiv:2506.09016, withdrawn at v3).

Claim: a gradient estimate's signal-to-noise ratio is at most 4 N p (1-p), so prompts near 0 and 1 are not worth their
responses. Assumption: rewards are binary, and N responses are the same number for all that go on. Degenerate case: a
prompt whose screening responses agree trains nothing in this step, even one with a pass rate of 1/2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.stopping.rule import PilotRule
from ada_lightning.methods.checked import Check, at_least
from ada_lightning.methods.sampling.pilot import PilotSampler


@dataclass(kw_only=True, eq=False)
class SpeedSampler(PilotSampler):
    """``num_screen`` responses, and ``num_continue`` more for a prompt with a right and a wrong one among them.

    The authors put the screening of the next batch and the continuation of this one into one call of the engine,
    because their calls wait for the slowest response. Here both share one session of the engine anyway: a prompt goes
    on when its own screening is graded. So nothing waits in a buffer for a later step, and every response is
    on-policy. A step has the prompts that passed, not always the same number of them.

    Source:
        Zhang et al., arXiv:2506.09016; authors' code ``verl/trainer/ppo/data_controller.py``.

    Example:
        >>> SpeedSampler(num_screen=4, num_continue=20, group_size=24).rule.totals
        (4, 24, 24, 24, 4)
    """

    num_screen: int
    """Responses that decide."""
    num_continue: int
    """Further responses where they differ."""

    def _checks(self) -> Iterator[Check]:
        yield (
            self.num_screen >= 2,
            f"num_screen must be at least 2: a single response never differs; got {self.num_screen}",
        )
        yield from at_least(1, num_continue=self.num_continue)
        yield self.keeps_at_most(self.num_screen + self.num_continue)

    def make_rule(self) -> PilotRule:
        """Go on after any screening but those that are all wrong or all right."""
        total = self.num_screen + self.num_continue
        return PilotRule((self.num_screen, *[total] * (self.num_screen - 1), self.num_screen), is_screen=True)
