"""RAFT's rule (arXiv:2304.06767, arXiv:2504.11343): accepted responses weigh 1, all others nothing.

Claim: no baseline is needed where only positives train. Assumes rewards that say right or wrong. Degenerate case: a
prompt whose responses are all positive has no contrast, and trains all the same.

Fidelity: after the paper. Every positive trains, as in paper and code. The loss is the mean over accepted responses, as
in the paper; the code's, over the tokens of all drawn ones, with KL and entropy, is a line of settings in the recipe's
text. The importance weight of the engine is ours.
"""

from __future__ import annotations

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Advantage, Selection, Trait
from ada_lightning.core.records import KeptResponse, ResponseGroup, ResponsePool
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection.weights import with_selection_weights


@option("advantage", "accepted")
class AcceptedAdvantage(Advantage):
    """RAFT: accepted responses weigh 1, all others nothing (arXiv:2504.11343). Goes with ``loss=raft_plus_plus``.

    It follows the rate of responses that are right and train: right and finished with ``rollout.truncated=exclude`` and
    ``mask``. Groups of positives only train, and groups of negatives only are not computed. Ragged groups: a prompt
    weighs by its positives; ``loss/reduction=prompt_mean`` with ``selection=positives`` makes them equal, as GVM does.

    Source:
        RAFT++, arXiv:2504.11343, section 2, and its code, in which every response with a positive score trains and
        weighs by the score; here "accepted" are those above ``rollout.positive_threshold``, which all weigh 1.
    """

    traits = frozenset({Trait.TRAINS_EQUAL_REWARDS, Trait.IS_UNCENTRED})

    def of_group(self, group: ResponseGroup) -> list[float]:
        """Return 1 or 0 for each kept response."""
        return [float(kept.response.is_positive) for kept in group.kept]


@option("selection", "positives")
class PositivesSelection(Selection):
    """Positives train, nothing else: rejection sampling. Goes with ``advantage=accepted``.

    Every positive of the pool is kept, no negative. A prompt without a positive is dropped. The group that trains has
    no contrast: advantages that compare its responses with each other are all 0, so it goes with
    ``advantage=accepted``. Means over kept responses or tokens count positives only, as RAFT's do.

    Source:
        RAFT, arXiv:2304.06767; RAFT++, arXiv:2504.11343, section 2.
    """

    traits = frozenset({Trait.KEEPS_WHAT_THERE_IS})

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the positives that may train, in launch order."""
        return with_selection_weights(pool, [response for response in pool.trainable() if response.is_positive])


RAFT_PLUS_PLUS = known(
    Recipe(
        name="raft_plus_plus",
        card=Card(
            table="update",
            changes="trains on right responses only, with an upper clip",
            cost="fewer trained",
            fidelity="after",
            departs=(
                "Every right response trains, as in paper and code. The loss is the mean over accepted responses, as "
                "in the paper. The code takes the mean over the tokens of all drawn ones, with KL and entropy. `ada "
                "describe raft_plus_plus` has the settings for that. The engine's importance weight is ours."
            ),
        ),
        checked=Comparison(
            rule="the loss and its gradient",
            against="by hand",
            test="unit/training/losses/test_losses.py::test_loss_and_gradient_follow_the_definition",
        ),
        text="""
            RAFT++ (arXiv:2504.11343): a fixed number of responses per prompt, and only the right ones train, with PPO's
            ratio and clip. The loss is the mean over them, as in the paper. The paper's code (RLHFlow/Minimal-RL at
            e3b49f0) takes the mean over the tokens of all drawn responses. It has KL and entropy over all of them, and
            a second model in memory. For that type selection=all loss/reduction=token_mean loss.importance_cap=0
            loss.kl_coef=0.001 loss.entropy_coef=0.001 data.num_minibatches=4. The paper's step has 1024 prompts.
        """,
        sampler=UniformSampler,
        selection=PositivesSelection,
        advantage=AcceptedAdvantage,
        loss="raft_plus_plus",
    )
)
