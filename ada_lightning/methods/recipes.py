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
from ada_lightning.methods.curriculum import AutoCurriculum, DiverseUsefulness, ExpectedUsefulness
from ada_lightning.methods.estimators.beta_history import BetaHistory
from ada_lightning.methods.estimators.counting import EmaEstimator
from ada_lightning.methods.estimators.similar_prompts import SimilarPrompts
from ada_lightning.methods.published.reinforce_ada import EstimatedSampler
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling import BalanceSampler, PositiveSampler, SpreadSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection, StratifiedSelection

ADA = known(
    Recipe(
        name="ada",
        card=Card(
            table="prompts",
            changes="picks prompts by p (1 - p), drawn from their history, which also gives the baseline",
            needs="its own history",
            cost="4 per prompt; groups without a signal train too",
            fidelity="ours",
            departs=(
                "The update is exact for the mean pass rate of the prompts it chooses, which are not all prompts. The "
                "nearest relative is `spo`. Both take the baseline from a Beta history of before the step, which needs "
                "no group. `spo` draws 1 response per prompt. `ada` draws 4, and the others are part of the baseline. "
                "`spo` forgets by how far the policy has moved, `ada` forgets a fixed share per visit. `spo` starts "
                "from a measurement of every prompt, `ada` from a prior of the run's own prompts. `spo` draws from all "
                "prompts by sqrt(v (1 - v)). `ada` chooses among candidates by Thompson sampling, and a share of its "
                "places goes to all prompts in turn. `spo` whitens advantages, `ada` does not."
            ),
        ),
        checked=Comparison(
            rule="the baseline is unbiased",
            against="enumeration",
            test=(
                "unit/methods/advantages/test_history.py::test_whatever_is_believed_the_update_is_that_of_the_mean_pass_rate"
            ),
        ),
        text="""
            Trains on prompts whose responses will probably differ, judged by each prompt's history. Thompson sampling
            of p (1 - p) picks them among the step's candidates. Each prompt gets four responses, and all of them train.
            The baseline comes from the prompt's history and the other responses. The nearest relative is
            +experiment=spo (arXiv:2509.13232). Why: docs/studies/gradient_variance.md. What it gained:
            docs/studies/cost_benefit.md. There, four updates of a rollout four times as large learned most per second:
            data.num_minibatches=4 data.prompts_per_step=128.
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
        card=Card(
            table="prompts",
            changes="picks prompts with the largest expected p (1 - p), otherwise as `ada`",
            needs="visits to the prompt and to prompts with similar words",
            cost="4 per prompt",
            fidelity="ours",
            departs=(
                "Exact in the same sense as `ada`. Words tell nothing where all prompts read alike. Two relatives have "
                "a model of their own. GPS (arXiv:2602.01970) has a latent variable for the policy and a decoder over "
                "embeddings. PCL (arXiv:2510.01135) has a value model that reads the prompt, and it takes the prompts "
                "nearest to 1/2."
            ),
        ),
        checked=Comparison(
            rule="the posterior of a prompt",
            against="brute force",
            test=(
                "unit/methods/estimators/test_similar_prompts.py::test_the_posterior_of_one_prompt_is_that_of_a_grid"
            ),
            also=("grpo_chosen",),
        ),
        text="""
            Works as ada does, but needs no history of a prompt: it predicts the pass rate from sampled prompts with
            similar words. So it can tell prompts apart the first time they come. Why, and what it gained:
            docs/studies/cost_benefit.md, the section on prompts that are seen once. There it made four updates of a
            larger rollout: data.num_minibatches=4 data.prompts_per_step=128.
        """,
        estimator=SimilarPrompts,
        curriculum=ExpectedUsefulness,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=HistoryBaselineAdvantage,
    )
)
ADA_DIVERSE = known(
    Recipe(
        name="ada_diverse",
        card=Card(
            table="prompts",
            changes="as `ada_similar`, with prompts of a step unlike each other",
            needs="as `ada_similar`",
            cost="4 per prompt",
            fidelity="after",
            departs=(
                "After GPS (arXiv:2602.01970), from which it takes the diversity term alone, within the step. Prompts "
                "are added one by one, by usefulness plus 0.05 times the distance. That weight and the distance are "
                "ours."
            ),
        ),
        checked=Comparison(
            rule="each next prompt is the best one",
            against="brute force",
            test=(
                "unit/methods/curriculum/test_diverse_usefulness.py::test_the_greedy_order_is_the_best_next_one_each_time"
            ),
        ),
        text="""
            Works as ada_similar does, with prompts of a step that are unlike each other (after GPS, arXiv:2602.01970).
            The most useful prompt comes first. Each next prompt has the largest sum of usefulness and distance to those
            already chosen.
        """,
        estimator=SimilarPrompts,
        curriculum=DiverseUsefulness,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=HistoryBaselineAdvantage,
    )
)
GRPO_CHOSEN = known(
    Recipe(
        name="grpo_chosen",
        card=Card(
            table="prompts",
            changes="GRPO on the prompts that `ada_similar` would pick",
            needs="as `ada_similar`",
            cost="4 per prompt; groups with a signal train",
            fidelity="ours",
            departs="Words tell nothing where all prompts read alike.",
        ),
        text="""
            Runs GRPO on the prompts that ada_similar would choose: those whose responses will probably differ, judged
            by sampled prompts with similar words. Groups with equal rewards do not train, so updates cost less than
            ada_similar's. What it gained: docs/studies/cost_benefit.md, the section on prompts that are seen once.
            There it made four updates of a larger rollout: data.num_minibatches=4 data.prompts_per_step=128.
        """,
        estimator=SimilarPrompts,
        curriculum=ExpectedUsefulness,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
    )
)
AUTO = known(
    Recipe(
        name="auto",
        card=Card(
            table="prompts",
            changes="`grpo_chosen` while a test says that it pays, else GRPO",
            needs="as `ada_similar`; two prompts a step, fixed groups",
            cost="4 per prompt; groups with a signal train",
            fidelity="ours",
            departs=(
                "Half of a step's prompts stay uniform until the test has decided, a tenth after that. Whether it "
                "learns faster than `grpo_chosen` or GRPO is not measured yet."
            ),
        ),
        checked=Comparison(
            rule="of 1,000 streams in which choosing does not pay, at most 50 ever choose",
            against="simulation",
            test="unit/research/studies/test_auto_simulation.py::test_streams_without_a_difference_seldom_choose",
        ),
        text="""
            Chooses prompts by forecast as grpo_chosen does, but only while a running test says that this pays. Half of
            a step's prompts are a control at first. Where chosen prompts give more signal for the same cost, most
            places go to them; where they do not, the run is GRPO and tries again later. Nothing is to be tuned.
            What it decides by, and how often it errs: docs/auto.md.
        """,
        estimator=SimilarPrompts,
        curriculum=AutoCurriculum,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
    )
)
ADA_SEQ_BALANCE = known(
    Recipe(
        name="ada_seq_balance",
        text="""
            Reinforce-Ada-Seq-balance: each prompt is sampled until it has enough right and enough wrong responses. The
            update is exact for the log objective.
        """,
        sampler=BalanceSampler,
        selection=BalancedSelection,
        advantage=ExactAdvantage,
    )
)
ADA_SEQ_POS = known(
    Recipe(
        name="ada_seq_pos",
        card=Card(
            table="responses",
            changes="draws blocks until a prompt has enough right (and wrong) responses",
            cost="4 to 32",
            fidelity="our update",
            departs=(
                "An exact estimator takes the place of the official rule. The official rule is "
                "`ada_seq_balance_official`, the paper's text is `ada_seq_balance_paper_v3`."
            ),
            also=("ada_seq_balance",),
        ),
        checked=Comparison(
            rule="the chances of every end of a stopping rule",
            against="brute force",
            test="unit/core/stopping/test_paths.py::test_end_probabilities_equal_an_enumeration_of_all_sequences",
            also=("ada_seq_balance",),
        ),
        text="""
            Reinforce-Ada-Seq-pos: each prompt is sampled until it has enough right responses. The update is exact for
            the log objective.
        """,
        sampler=PositiveSampler,
        selection=BalancedSelection,
        advantage=ExactAdvantage,
    )
)
ADA_EST_EMA = known(
    Recipe(
        name="ada_est_ema",
        card=Card(
            table="responses",
            changes="divides a fixed total in proportion to p^-1/2, p remembered or predicted",
            needs="history (`ada_est_ema`), or hidden states (`ada_est_value`)",
            cost="8 on average",
            fidelity="our update",
            departs=(
                "The update is exact for the log objective as far as each prompt's number of responses can see. The "
                "paper's weights are `ada_est_ema_paper`, those of the public code are `ada_est_ema_implicit`. The "
                "paper names no network for `ada_est_value`, so it is ours."
            ),
            also=("ada_est_value",),
        ),
        checked=Comparison(
            rule="the shares, and how counts fade",
            against="by hand",
            test=(
                "unit/methods/sampling/test_planned.py::test_estimated_shares_follow_the_power_of_the_pass_rate_inside_the_bounds"
            ),
            also=(
                "ada_est_ema_paper",
                "ada_est_ema_implicit",
            ),
        ),
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
        card=Card(
            table="responses",
            changes="draws blocks until a prompt's rewards are far enough apart",
            needs="graded rewards",
            cost="4 to 32",
            fidelity="ours",
        ),
        checked=Comparison(
            rule="the bias that stopping brings",
            against="enumeration",
            test=(
                "unit/methods/advantages/test_weighted_leave_one_out.py::test_the_bias_for_binary_rewards_is_what_the_docstring_says"
            ),
        ),
        text="""
            Samples a prompt until two of its rewards are far enough apart, for rewards that are not just 0 or 1. The
            task is to spell words of 3 or 4 letters backward, and each letter in its place earns part of the reward. A
            prompt is sampled until two rewards are half a word apart, and some responses of every stratum train. The
            update follows the mean reward. Untrained, SmolLM2-135M gets a letter or two right in about one response of
            four, and hardly ever the word. selection.random_order is true because the first generated responses of a
            stratum are not like the later ones. WeightedLeaveOneOutAdvantage says more.
        """,
        sampler=SpreadSampler,
        selection=StratifiedSelection,
        advantage=WeightedLeaveOneOutAdvantage,
        options={"data/source/tasks": "spell_backward"},
        settings={
            "selection.random_order": True,
            "reward.reward.extraction._target_": "ada_lightning.rewards.extraction.FirstLine",
            "reward.reward.binary": False,
        },
    )
)
GRPO = known(
    Recipe(
        name="grpo",
        card=Card(
            table="responses",
            changes="nothing: groups of a fixed size",
            cost="4 or 16",
            fidelity="faithful advantage",
            departs=(
                "The loss is this project's default. The published loss is `loss=grpo`: a mean over responses, clip "
                "0.2 and KL 0.04."
            ),
            also=("grpo_n16",),
        ),
        checked=Comparison(
            rule="the advantage of a group",
            against="by hand",
            test="unit/methods/advantages/test_group_rules.py::test_by_hand",
            also=(
                "grpo_n16",
                "dr_grpo",
                "rloo",
            ),
        ),
        text="""
            GRPO's advantage: a fixed group of responses per prompt, all of them trained, rewards standardised within
            the group. The loss is this project's default (loss=clipped), so that other advantages can be compared with
            it. The published loss is loss=grpo: a mean over responses, with a KL. To compare groups of several sizes at
            updates of about equal size see +experiment=grpo_n16.
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
            GRPO with groups of 16, the paper's larger baseline (arXiv:2510.04996v3, Table 2). The default loss is a sum
            over responses. So its expected update is 5.4 to 9.4 times that of +experiment=grpo (pass rates of 0.5 to
            0.02), before policy.max_grad_norm. Compare the two with loss/reduction=prompt_mean on both, which leaves
            1.3 to 2.3 times.
        """,
        sampler=use(UniformSampler, group_size=16),
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
    )
)
RLOO = known(
    Recipe(
        name="rloo",
        card=Card(
            table="update",
            changes="baseline of the other responses, no clip",
            needs="at least 2 responses per prompt",
            fidelity="after",
            departs="In the paper the KL is part of the reward. Here it is part of the loss, and off.",
        ),
        text="""
            RLOO (arXiv:2402.14740): a fixed group, each reward minus the mean of the others, REINFORCE without a clip.
            In the paper the KL is part of the reward. Here it would be part of the loss, by loss.kl_coef.
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
        checked=Comparison(
            rule="a network of ours: the paper names none",
            against="nothing",
            test="unit/methods/estimators/test_value_network.py::test_it_learns_to_tell_hard_prompts_from_easy_ones",
        ),
        text="""
            Reinforce-Ada-Est with a value network that predicts pass rates. The paper names no network, so it is ours.
            The update is exact for the log objective as far as each prompt's number of responses can see.
        """,
        estimator="value_network",
        sampler="estimated",
        selection="all",
        advantage="exact",
    )
)
CALCULATOR = known(
    Recipe(
        name="environments/calculator",
        text="""
            Episodes of up to three turns: the model calls the calculator, reads the result and answers
            (docs/environments.md). Sampling, selection and update treat an episode as one response. So the method can
            be that of any other experiment, named before this one: '+experiment=[grpo,environments/calculator]'.
            Without another it is that of ada_seq_balance. max_new_tokens is the limit for one turn; a call takes about
            16. max_model_tokens holds the prompt and all turns together.
        """,
        options={"data": "calculator", "reward": "exact_match", "environment": "calculator"},
        settings={"rollout.sampling.max_new_tokens": 24, "rollout.max_model_tokens": 384},
    )
)
GUESS = known(
    Recipe(
        name="environments/guess",
        text="""
            A game of up to three turns: the model guesses a number among seven and is told higher or lower
            (docs/environments.md). The method can be that of any other experiment, named before this one. Without
            another it is that of ada_seq_balance. max_new_tokens is the limit for one turn; a guess takes two to four.
            max_model_tokens holds the prompt and all turns together.
        """,
        options={"data": "guess", "reward": "exact_match", "environment": "guess"},
        settings={"rollout.sampling.max_new_tokens": 8, "rollout.max_model_tokens": 384},
    )
)
