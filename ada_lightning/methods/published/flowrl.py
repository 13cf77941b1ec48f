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
            FlowRL: a fixed group per prompt, with rewards standardised in it. The policy is drawn towards the reference
            tilted by the rewards, not towards the highest reward. The head that learns log Z trains beside the policy.
        """,
        sampler=UniformSampler,
        selection="all",
        advantage="grpo",
        loss="flowrl",
        card=Card(
            "update",
            "towards the reference tilted by the reward; a head for log Z",
            "a reference, the head's parameters",
            "a reference forward pass",
            "faithful",
            "clipped weight as in the paper, the code's unclipped one by option",
        ),
        checked=Comparison(
            "loss, gradients, and log Z of two arms",
            "brute force",
            "unit/training/losses/test_flow.py::test_gradients_are_those_of_a_plain_implementation",
        ),
    )
)
