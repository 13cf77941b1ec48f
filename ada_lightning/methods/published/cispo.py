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
            CISPO (MiniMax-M1, arXiv:2506.13585): GRPO's advantages, clipped importance weights. The paper makes 16
            updates of a rollout; 4 here, of 8 prompts each: with one there is no weight to clip.
        """,
        sampler=UniformSampler,
        selection="all",
        advantage="grpo",
        loss="cispo",
        settings={"data.num_minibatches": 4},
        card=Card(
            "update",
            "clips the weight, keeps the gradient",
            "several updates",
            "scores the rollout once",
            "after",
            "the paper names no bound: 5 here",
        ),
        checked=Comparison(
            "loss and gradient",
            "by hand",
            "unit/training/losses/test_losses.py::test_loss_and_gradient_follow_the_definition",
        ),
    )
)
