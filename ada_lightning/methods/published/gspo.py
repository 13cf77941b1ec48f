"""GSPO (arXiv:2507.18071): ratio and clip of the whole response.

Faithful; the importance weight of the engine by sequence is ours. The loss with claim, assumption and degenerate case
is ``ada_lightning.training.losses.GspoLoss`` (eq. 5, 7 and 13-14).
"""

from __future__ import annotations

from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling import UniformSampler

GSPO = known(
    Recipe(
        name="gspo",
        text="""
            GSPO (arXiv:2507.18071): GRPO's advantages, with ratios and clips of whole responses. There are four updates
            per rollout, as in section 5.1: with one there is no ratio to clip.
        """,
        sampler=UniformSampler,
        selection="all",
        advantage="grpo",
        loss="gspo",
        settings={"data.num_minibatches": 4},
        card=Card(
            table="update",
            changes="ratio and clip of the whole response",
            needs="several updates per rollout",
            cost="scores the rollout once",
            fidelity="faithful",
            departs="The engine's importance weight is taken by sequence, which is ours.",
        ),
        checked=Comparison(
            "the sequence form",
            "by hand",
            "unit/training/losses/test_losses.py::test_gspo_is_the_sequence_form_of_the_paper",
        ),
    )
)
