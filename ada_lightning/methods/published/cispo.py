"""CISPO (MiniMax-M1, arXiv:2506.13585): the importance weight is clipped, the gradient never dropped.

After the paper, which names no bound: 5 here. The loss with claim, assumption and degenerate case is
``ada_lightning.training.losses.CispoLoss`` (eq. 4-5).
"""

from __future__ import annotations

from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling import UniformSampler

CISPO = known(
    Recipe(
        name="cispo",
        text="""
            CISPO (MiniMax-M1, arXiv:2506.13585): GRPO's advantages with clipped importance weights. The paper makes 16
            updates of a rollout. Here there are 4, of 8 prompts each: with one update there is no weight to clip.
        """,
        sampler=UniformSampler,
        selection="all",
        advantage="grpo",
        loss="cispo",
        settings={"data.num_minibatches": 4},
        card=Card(
            table="update",
            changes="clips the importance weight and keeps the gradient",
            needs="several updates per rollout",
            cost="scores the rollout once",
            fidelity="after",
            departs="The paper names no bound. Here it is 5.",
        ),
        checked=Comparison(
            "the loss and its gradient",
            "by hand",
            "unit/training/losses/test_losses.py::test_loss_and_gradient_follow_the_definition",
        ),
    )
)
