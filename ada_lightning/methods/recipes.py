"""The methods that are recommended or measured here, as values; those of papers stand in ``methods/published``.

A recipe names the parts in which a method differs from a run's defaults::

    from ada_lightning.methods import recipes

    recipes.ADA_SEQ_BALANCE.with_(k_pos=3)
"""

from __future__ import annotations

from ada_lightning.methods.recipe import Recipe, known
from ada_lightning.methods.sampling import BalanceSampler

ADA_SEQ_BALANCE = known(
    Recipe(
        name="ada_seq_balance",
        text="Reinforce-Ada-Seq-balance, the update exact for the log objective.",
        sampler=BalanceSampler,
        selection="balanced",
        advantage="exact",
    )
)
ADA_EST_VALUE = known(
    Recipe(
        name="ada_est_value",
        text="Reinforce-Ada-Est with a value network that predicts pass rates; the paper names no network, so it is "
        "ours. The update is exact for the log objective as far as each prompt's number of responses can see.",
        estimator="value_network",
        sampler="estimated",
        selection="all",
        advantage="exact",
    )
)
