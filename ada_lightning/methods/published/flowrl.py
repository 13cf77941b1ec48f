"""FlowRL (arXiv:2509.15207, eq. 6): match a distribution tilted by the reward instead of maximising the reward.

Faithful: the clipped weight is the paper's, the code's unclipped one is there by option. The loss with claim,
assumption and degenerate case is ``ada_lightning.training.losses.FlowRlLoss``.
"""

from __future__ import annotations

from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling import UniformSampler

FLOWRL = known(
    Recipe(
        name="flowrl",
        text="""
            FlowRL (arXiv:2509.15207): the policy is drawn towards the reference tilted by the rewards, not towards the
            highest reward. Groups have a fixed size, and rewards are standardised within them. A head that learns log Z
            trains with the policy.
        """,
        sampler=UniformSampler,
        selection="all",
        advantage="grpo",
        loss="flowrl",
        card=Card(
            table="update",
            changes="draws the policy towards a reference tilted by rewards",
            needs="a reference model, and a head for log Z",
            cost="a forward pass of the reference",
            fidelity="faithful",
            departs="The weight is clipped as in the paper. The code's unclipped one is an option.",
        ),
        checked=Comparison(
            "loss, gradients, and log Z of two arms",
            "brute force",
            "unit/training/losses/test_flow.py::test_gradients_are_those_of_a_plain_implementation",
        ),
    )
)
