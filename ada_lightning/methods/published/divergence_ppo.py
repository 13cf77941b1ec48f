"""Divergence PPO (arXiv:2602.04879): tokens stop training by how far the distribution moved, not by their ratio.

Faithful to the binary variants; there are no top-K ones (docs/methods.md, what is not here). The ratio's cap is 3, in
effect in verl and the authors' code; verl's example script has 10,000. The loss with claim, assumption and degenerate
case is ``ada_lightning.training.losses.DivergencePolicyLoss``.
"""

from __future__ import annotations

from dataclasses import replace

from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling import UniformSampler

TV = known(
    Recipe(
        name="divergence_ppo_tv",
        text="""
            Divergence PPO with total variation (arXiv:2602.04879) and Dr. GRPO's advantages: tokens are masked by their
            distance to the engine's probability. The paper takes 16 responses and 8 updates of 32 prompts; here it is 4
            responses and 4 updates of 8.
        """,
        sampler=UniformSampler,
        selection="all",
        advantage="dr_grpo",
        loss="divergence_tv",
        settings={"data.num_minibatches": 4},
        card=Card(
            table="update",
            changes="masks tokens by the distance to the engine's probability",
            needs="the engine's log-probabilities",
            cost="scores the rollout once",
            fidelity="faithful, binary form",
            departs=(
                "There are no top-K variants ([why](methods.md#what-is-not-here)). The ratio's cap is 3, as in effect "
                "in verl and in the authors' code. verl's example script has 10,000."
            ),
            also=("divergence_ppo_kl",),
        ),
        checked=Comparison(
            "the weights and the masks",
            "by hand",
            "unit/training/losses/test_losses.py::test_divergence_weighs_by_the_engines_probability_up_to_the_cap",
            also=("divergence_ppo_kl",),
        ),
    )
)
KL = known(
    replace(
        TV,
        name="divergence_ppo_kl",
        text="Divergence PPO with the KL divergence (arXiv:2602.04879), otherwise as divergence_ppo_tv.",
        loss="divergence_kl",
        card=None,
        checked=None,
    )
)
