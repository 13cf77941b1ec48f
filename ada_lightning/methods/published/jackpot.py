"""After Jackpot (arXiv:2602.06107): reject tokens so that those which train look drawn from the policy that trains.

There is no normaliser: losses here divide by what was drawn, so the weight without it is the unbiased one. Constants
are ours; no rollout model is trained along (docs/methods.md, what is not here). The mask with claim, assumption and
degenerate case is ``ada_lightning.training.token_masks.JackpotMask``.
"""

from __future__ import annotations

from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling import UniformSampler

JACKPOT = known(
    Recipe(
        name="jackpot",
        text="""
            GRPO with four updates per rollout, whose later ones train on tokens accepted after Jackpot. The first
            update is on-policy; the mask is for the others.
        """,
        sampler=UniformSampler,
        selection="all",
        advantage="grpo",
        token_masks=("jackpot",),
        settings={"data.num_minibatches": 4},
        card=Card(
            table="update",
            changes="accepts tokens with probability min(1, p / (lambda q))",
            needs="several updates per rollout",
            fidelity="after",
            departs=(
                "There is no normaliser. Losses here divide by what was drawn, so the weight without it is the "
                "unbiased one. Constants are ours. No rollout model trains with the policy "
                "([why](methods.md#what-is-not-here))."
            ),
        ),
        checked=Comparison(
            "what is kept of an enumerated vocabulary",
            "enumeration",
            "unit/training/token_masks/test_jackpot.py::test_kept_tokens_and_their_weights_are_what_is_promised",
        ),
    )
)
