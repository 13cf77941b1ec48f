"""After CAPO (arXiv:2510.00819): leave out tokens at which the coming update would go too far, or the wrong way.

The thresholds are ours: those of the paper are not known to us. The mask with claim, assumption and degenerate case is
``ada_lightning.training.token_masks.CapoMask``.
"""

from __future__ import annotations

from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling import UniformSampler

CAPO = known(
    Recipe(
        name="capo",
        text="""
            GRPO with the token mask after CAPO, at a learning rate at which leaving tokens out is meant to matter. It
            is five times the default, as the paper trains at five times GRPO's.
        """,
        sampler=UniformSampler,
        selection="all",
        advantage="grpo",
        token_masks=("capo",),
        settings={"optimizer.lr": 5e-5},
        card=Card(
            table="update",
            changes="leaves tokens out where a model of the update goes too far",
            needs="Adam's moments and the last hidden states",
            cost="a pass over vocabulary chunks",
            fidelity="after",
            departs="Thresholds are ours.",
        ),
        checked=Comparison(
            "its model of a step is right to second order",
            "brute force",
            "unit/training/token_masks/test_curvature.py::test_the_model_is_right_to_second_order",
        ),
    )
)
