"""DAPO (arXiv:2503.14476): only groups with a signal train, and others are drawn in their stead.

Faithful. It trains on fewer groups at the cap, where verl's recipe raises and verl 0.9.1 ignores the cap; waves
overlap; the length penalty is ``reward=overlong``. The parts: ``refill=dynamic``, ``loss=dapo``, ``reward=overlong``.
"""

from __future__ import annotations

from ada_lightning.core.options import use
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling import UniformSampler

DAPO = known(
    Recipe(
        name="dapo",
        text="""
            DAPO (arXiv:2503.14476): only groups with a signal train, and the others are replaced by new prompts. The
            loss is DAPO's: clip 0.2 and 0.28, dual clip 10, token mean, no KL, no correction for the engine. Responses
            near the length limit get a penalty. A right answer counts as one in spite of the penalty
            (rollout.positive_threshold=0). Groups are filtered by accuracy, not by the reward with the penalty
            (refill.component=correct). The paper's sizes are larger: prompts_per_step 512, groups of 16, 16
            minibatches, learning rate 1e-6 with 20 steps of warm-up.
        """,
        sampler=use(UniformSampler, group_size=8),
        selection="all",
        refill="dynamic",
        advantage="grpo",
        loss="dapo",
        options={"reward": "overlong"},
        settings={"rollout.positive_threshold": 0.0, "refill.component": "correct"},
        card=Card(
            table="prompts",
            changes="replaces groups without a signal by new prompts; `loss=dapo`",
            cost="responses / share with a signal, capped",
            fidelity="faithful",
            departs=(
                "At the cap it trains on fewer groups. verl's recipe raises an error there, and verl 0.9.1 ignores the "
                "cap ([verl's forms](methods.md#which-prompts)). Waves overlap. The penalty for length is that of "
                "`reward=overlong`."
            ),
        ),
        checked=Comparison(
            "the waves, and the figures of its penalty",
            "by hand",
            "unit/rewards/test_combined_rewards.py::test_dapos_figures",
        ),
    )
)
