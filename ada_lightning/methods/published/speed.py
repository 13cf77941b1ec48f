"""SPEED-RL: screen every prompt with a few responses, go on only where they differ (arXiv:2506.09016, withdrawn at v3).

Claim: a gradient estimate's signal-to-noise ratio is at most 4 N p (1-p), so prompts near 0 and 1 are not worth their
responses. Assumption: rewards are binary, and N responses are the same number for all that go on. Degenerate case: a
prompt whose screening responses agree trains nothing in this step, even one with a pass rate of 1/2.

Fidelity: faithful rule. There is no separate screening batch: both share one engine session, and steps vary in size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.options import option
from ada_lightning.core.stopping.rule import PilotRule
from ada_lightning.methods.advantages import LeaveOneOutAdvantage
from ada_lightning.methods.checked import Check, at_least
from ada_lightning.methods.recipe import Card, Recipe, known
from ada_lightning.methods.sampling.pilot import PilotSampler
from ada_lightning.methods.selection import AllSelection


@option("sampler", "speed")
@dataclass(kw_only=True, eq=False)
class SpeedSampler(PilotSampler):
    """SPEED-RL: screen with a few responses, go on where they differ (arXiv:2506.09016).

    Values are those of Zanette-Labs/speed-rl, ``run_fast_rloo_7b.sh``. The authors put the screening of the next batch
    and the continuation of this one into one call of the engine, because their calls wait for the slowest response.
    Here both share one session of the engine anyway: a prompt goes on when its own screening is graded. So nothing
    waits in a buffer for a later step, and every response is on-policy. A step has the prompts that passed, not always
    the same number of them.

    Source:
        Zhang et al., arXiv:2506.09016; authors' code ``verl/trainer/ppo/data_controller.py``.

    Example:
        >>> SpeedSampler(num_screen=4, num_continue=20, group_size=24).rule.totals
        (4, 24, 24, 24, 4)
    """

    num_screen: int = 4
    """Responses that decide (script: 4; for a 1.5B model 8)."""
    num_continue: int = 20
    """Further responses where they differ (script: 20; for a 1.5B model 16)."""
    group_size: int = 24

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


SPEED_RL = known(
    Recipe(
        name="speed_rl",
        card=Card(
            table="responses",
            changes="4 responses to screen, 20 more only if they differ",
            cost="4 or 24",
            fidelity="faithful rule",
            departs="There is no separate screening batch: both share one engine session. Steps vary in size.",
        ),
        text="""
            SPEED-RL on RLOO (arXiv:2506.09016, withdrawn at v3): 4 screening responses, and 20 more where they differ.
            advantage=exact goes with it, too: it undoes what the screening does to the objective.
        """,
        sampler=SpeedSampler,
        selection=AllSelection,
        advantage=LeaveOneOutAdvantage,
    )
)
