"""REINFORCE++ with baseline: reward minus the group's mean, on one scale over the whole rollout (arXiv:2501.03262).

Claim: dividing by a group's own standard deviation is biased and blows up nearly solved prompts; the deviation of the
    whole rollout is nearly a constant.
Assumption: many prompts per step.
Fidelity: after the paper's section 3. There the KL is part of the reward, here of the loss, and off. Groups without a
    signal are computed, since whitening by tokens shifts them.
"""

from __future__ import annotations

from ada_lightning.core.options import preset
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection

preset(
    "advantage",
    "reinforce_plus_plus",
    "batch_whitened",
    text="REINFORCE++ with baseline (arXiv:2501.03262, section 3): reward minus the group's mean, whitened over the "
    "rollout. A response counts as often as it has tokens, as in OpenRLHF and verl; by_tokens=false counts each once. "
    "There KL is part of the reward, here of the loss.",
    by_tokens=True,
)

REINFORCE_PLUS_PLUS = known(
    Recipe(
        name="reinforce_plus_plus",
        card=Card(
            table="update",
            changes="the group's mean as baseline, scaled over the whole step",
            needs="many prompts per step",
            cost="groups without a signal are computed",
            fidelity="after",
            departs="The KL is part of the loss, and off.",
        ),
        checked=Comparison(
            rule="whitening over tokens",
            against="their loop, rewritten",
            test=(
                "unit/methods/advantages/test_of_whole_rollout.py::test_reinforce_plus_plus_whitens_over_tokens_as_the_published_code"
            ),
        ),
        text="""
            REINFORCE++ with baseline (arXiv:2501.03262): reward minus the group's mean, scaled over the whole rollout,
            with PPO's clip.
        """,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage="reinforce_plus_plus",
        reduction="token_mean",
        settings={"loss.clip_high": 0.2},
    )
)
