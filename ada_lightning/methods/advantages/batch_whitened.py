"""Global advantage normalisation: any group's rule, brought to one scale over the whole rollout.

Claim: dividing by the standard deviation of a group of n is biased, since reward and deviation depend on each other,
and blows up nearly solved prompts; the deviation of the whole rollout is nearly a constant (REINFORCE++,
arXiv:2501.03262; ``scale_rewards="batch"`` in TRL). Assumes many prompts per step. Degenerate case: a step where all
advantages are equal has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ada_lightning.core.protocols import Advantage, LogRatios, States, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.functional import whitened_groups

_EPSILON = 1e-8


@dataclass(kw_only=True, eq=False)
class BatchWhitenedAdvantage(Advantage):
    """``(A - mean of A) / (standard deviation of A + 1e-8)`` over all kept responses of a rollout.

    A group without signal keeps advantages of 0 where the mean is 0, as it is for rules that centre each group; by
    tokens it is not, and then such groups train against the mean, as they do in the published code. Ragged groups count
    by their responses: a prompt with more of them moves mean and deviation more.

    Source:
        REINFORCE++, arXiv:2501.03262, section 3.
    """

    advantage: Advantage
    """The rule whose advantages are whitened."""
    by_tokens: bool = False
    """Count a response as often as it has tokens, as verl and OpenRLHF do; False counts each once."""

    def __post_init__(self) -> None:
        self.needs_reference = self.advantage.needs_reference
        self.traits = self.advantage.traits | ({Trait.TRAINS_EQUAL_REWARDS} if self.by_tokens else frozenset())

    def connect(self, log_ratios: LogRatios, states: States) -> None:
        """Tell the rule that is whitened."""
        self.advantage.connect(log_ratios, states)

    def assign(self, groups: Sequence[ResponseGroup]) -> list[list[float]]:
        """Return the advantages, group by group."""
        return whitened_groups(groups, self.advantage.assign(groups), by_tokens=self.by_tokens, epsilon=_EPSILON)

    def bend(self) -> str:
        """What whitening does to the update of the group's rule."""
        over = "tokens" if self.by_tokens else "kept responses"
        return (
            f"that is before whitening, which centres and scales advantages over all {over} of a step: nearly one "
            "factor for all of its prompts where they are many, and steps with little spread count as much as others"
        )
