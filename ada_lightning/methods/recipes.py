"""The methods that are recommended or measured here, as values; those of papers stand in ``methods/published``.

A recipe names the parts in which a method differs from a run's defaults::

    from ada_lightning.methods import recipes

    recipes.ADA_SEQ_BALANCE.with_(k_pos=3)
"""

from __future__ import annotations

from ada_lightning.core.options import use
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    GroupNormalizedAdvantage,
    HistoryBaselineAdvantage,
    LeaveOneOutAdvantage,
    WeightedLeaveOneOutAdvantage,
)
from ada_lightning.methods.curriculum import ExpectedUsefulness
from ada_lightning.methods.estimators.beta_history import BetaHistory
from ada_lightning.methods.estimators.counting import EmaEstimator
from ada_lightning.methods.estimators.similar_prompts import SimilarPrompts
from ada_lightning.methods.published.reinforce_ada import EstimatedSampler
from ada_lightning.methods.recipe import Recipe, known
from ada_lightning.methods.sampling import BalanceSampler, PositiveSampler, SpreadSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection, StratifiedSelection

ADA = known(
    Recipe(
        name="ada",
        text="""
            Samples where history says that there is something to learn: of each step's candidates, the prompts whose
            responses are likeliest to differ, four responses each, all of them trained; the baseline comes from
            history and the other responses. Its nearest relative is +experiment=spo (arXiv:2509.13232), with which it
            shares a baseline from a Beta history of before the step. SPO draws one response a prompt, from all prompts
            by sqrt(v (1 - v)), forgets by how far the policy has moved, starts from a measurement of every prompt and
            whitens advantages; here it is four, Thompson sampling of p (1 - p) among candidates and a share in turn, a
            fixed share per visit, a prior from the run's own prompts, and no whitening. Why:
            docs/studies/gradient_variance.md; what it gained: docs/studies/cost_benefit.md. Four updates of a rollout
            four times as large learned most per second there: data.num_minibatches=4 data.prompts_per_step=128.
        """,
        estimator=BetaHistory,
        curriculum="learnability",
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=HistoryBaselineAdvantage,
    )
)
ADA_SIMILAR = known(
    Recipe(
        name="ada_similar",
        text="""
            ada that needs no history: what a prompt's words share with prompts already sampled says what to expect of
            it, so that prompts are told apart the first time they come. Why and what it gained:
            docs/studies/cost_benefit.md, section on prompts that are seen once, with four updates of a larger rollout:
            data.num_minibatches=4 data.prompts_per_step=128.
        """,
        estimator=SimilarPrompts,
        curriculum=ExpectedUsefulness,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=HistoryBaselineAdvantage,
    )
)
GRPO_CHOSEN = known(
    Recipe(
        name="grpo_chosen",
        text="""
            GRPO on the prompts that ada_similar would choose: those whose responses will probably differ, by what
            prompts with like words have shown. Groups that turn out to be all alike do not train, so updates cost less
            than ada_similar's. What it gained: docs/studies/cost_benefit.md, section on prompts that are seen once,
            with four updates of a larger rollout: data.num_minibatches=4 data.prompts_per_step=128.
        """,
        estimator=SimilarPrompts,
        curriculum=ExpectedUsefulness,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
    )
)
ADA_SEQ_BALANCE = known(
    Recipe(
        name="ada_seq_balance",
        text="Reinforce-Ada-Seq-balance, the update exact for the log objective.",
        sampler=BalanceSampler,
        selection=BalancedSelection,
        advantage=ExactAdvantage,
    )
)
ADA_SEQ_POS = known(
    Recipe(
        name="ada_seq_pos",
        text="Reinforce-Ada-Seq-pos, the update exact for the log objective.",
        sampler=PositiveSampler,
        selection=BalancedSelection,
        advantage=ExactAdvantage,
    )
)
ADA_EST_EMA = known(
    Recipe(
        name="ada_est_ema",
        text="""
            Reinforce-Ada-Est with an exponential average of each prompt's outcomes. The update is exact for the log
            objective as far as each prompt's number of responses can see.
        """,
        estimator=EmaEstimator,
        sampler=EstimatedSampler,
        selection=AllSelection,
        advantage=ExactAdvantage,
    )
)
ADA_SPREAD_PARTIAL_CREDIT = known(
    Recipe(
        name="ada_spread_partial_credit",
        text="""
            Rewards that are not binary: words of 3 or 4 letters spelled backward, part of the reward for each letter
            in its place. Sampled until two rewards are half a word apart, some of every stratum trained; follows the
            mean reward. Untrained, SmolLM2-135M gets a letter or two right in about one response of four, and hardly
            ever the word. selection.random_order: the first generated of a stratum are not like the later ones, see
            WeightedLeaveOneOutAdvantage.
        """,
        sampler=SpreadSampler,
        selection=use(StratifiedSelection, random_order=True),
        advantage=WeightedLeaveOneOutAdvantage,
        options={"data/source/tasks": "spell_backward"},
        settings={
            "reward.reward.extraction._target_": "ada_lightning.rewards.extraction.FirstLine",
            "reward.reward.binary": False,
        },
    )
)
GRPO = known(
    Recipe(
        name="grpo",
        text="""
            GRPO's advantage: a fixed group per prompt, all of it trained, rewards standardised within the group. The
            loss is this project's default (loss=clipped), so that other advantages can be compared with it; the
            published one, a mean over responses with a KL, is loss=grpo. Groups of several sizes at updates of about
            equal size: see +experiment=grpo_n16.
        """,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
    )
)
GRPO_N16 = known(
    Recipe(
        name="grpo_n16",
        text="""
            GRPO with groups of 16, the paper's larger baseline (arXiv:2510.04996v3, Table 2). The loss is a sum over
            responses by default, so its expected update is 5.4 to 9.4 times that of +experiment=grpo (pass rates of
            0.5 to 0.02), before policy.max_grad_norm. Compare the two with loss/reduction=prompt_mean on both, which
            leaves 1.3 to 2.3 times.
        """,
        sampler=use(UniformSampler, group_size=16),
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
    )
)
RLOO = known(
    Recipe(
        name="rloo",
        text="""
            RLOO (arXiv:2402.14740): a fixed group, reward minus the mean of the others, REINFORCE without a clip. The
            paper's KL is part of its reward; here it would be loss.kl_coef.
        """,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=LeaveOneOutAdvantage,
        loss="reinforce",
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
