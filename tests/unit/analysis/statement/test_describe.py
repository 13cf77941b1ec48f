from __future__ import annotations

import math

import pytest

from ada_lightning.analysis.statement import describe_update
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    GroupNormalizedAdvantage,
    LeaveOneOutAdvantage,
    PoolMeanAdvantage,
    StratifiedAdvantage,
    WeightedLeaveOneOutAdvantage,
)
from ada_lightning.methods.curriculum import DifficultyBand, UniformCurriculum
from ada_lightning.methods.objectives import (
    LinearObjective,
    LogitObjective,
    LogObjective,
    PassAtKObjective,
    PowerObjective,
)
from ada_lightning.methods.pass_rates import FirstRoundRate, PathCountingRate, PoolMeanRate, PosteriorRate
from ada_lightning.methods.refill import DynamicSampling, NoRefill
from ada_lightning.methods.sampling import (
    BalanceSampler,
    CobaSampler,
    EstimatedSampler,
    GiveUpByPosterior,
    KnapsackSampler,
    OptPoSampler,
    PositiveSampler,
    PruningSampler,
    RlooVariance,
    SpreadSampler,
    UniformSampler,
    VipSampler,
)
from ada_lightning.methods.selection import (
    AllSelection,
    BalancedSelection,
    BanditSelection,
    FixedFractionPruning,
    LargestAdvantageBatchSelection,
    LargestAdvantageSelection,
    MaxVarianceSelection,
    PruningSelection,
)
from ada_lightning.training.losses import (
    ClippedPolicyLoss,
    ConstantReduction,
    FlowRlLoss,
    LossReduction,
    PartitionHead,
    PromptMeanReduction,
    ResponseMeanReduction,
    TokenMeanReduction,
)
from ada_lightning.training.token_masks import CapoMask, JackpotMask

GROUP = BalancedSelection(group_size=4)
WHOLE = AllSelection()
UNIFORM = UniformSampler(group_size=4)
PLANNED = [
    EstimatedSampler(responses_per_prompt=8),
    VipSampler(responses_per_prompt=8, variance=RlooVariance()),
    KnapsackSampler(responses_per_prompt=8),
    CobaSampler(responses_per_prompt=8),
]
"""Samplers that settle the number of responses beforehand, each in a way of its own."""


def balance(**settings):
    sizes = {"k_pos": 2, "k_neg": 2, "samples_per_round": 4, "n_max": 32, "group_size": 4}
    return BalanceSampler(**(sizes | settings))


def policy_loss(**settings):
    neutral = {"reduction": ConstantReduction(token_scale=32), "importance_cap": 2.0}
    return ClippedPolicyLoss(**(neutral | settings))


def statement(advantage, sampler, selection, loss=None, **settings):
    neutral = {"num_minibatches": 1, "max_grad_norm": math.inf, "truncated": "grade"}
    return describe_update(
        advantage=advantage,
        sampler=sampler,
        selection=selection,
        loss=loss or policy_loss(),
        **(neutral | settings),
    )


def followed(advantage, sampler, selection):
    """All but the line about importance weights, which every run has."""
    return statement(advantage, sampler, selection)[:-1]


def exact(objective, sampler):
    return followed(ExactAdvantage(objective=objective), sampler, GROUP)


def row(lines, name):
    (line,) = [line for line in lines if line.strip().startswith(name)]
    return [float(figure) for figure in line.strip().removeprefix(name).split()]


class TestExact:
    def test_log_is_named_with_what_the_budget_supports(self):
        assert exact(LogObjective(), balance()) == [
            "update: exact for f(p) = log p as far as 32 responses can see: f'(p) = (1 - (1-p)^31) / p"
        ]

    def test_objective_that_is_supported_in_full_needs_no_more_words(self):
        assert exact(LinearObjective(), balance()) == ["update: exact for f(p) = p"]
        assert exact(PassAtKObjective(4), balance()) == ["update: exact for f(p) = 1 - (1-p)^4"]

    def test_partly_supported_objective_has_its_figures(self):
        lines = exact(PowerObjective(0.5), balance())
        assert lines[0] == (
            "update: exact for f(p) = p^0.5 as far as 32 responses can see: 31 terms of a series without end"
        )
        assert row(lines, "f'(p) of the objective") == pytest.approx(
            [0.5 * p**-0.5 for p in (0.02, 0.1, 0.5, 0.9)], 5e-3
        )
        assert row(lines, "f'(p) supported")[0] < 2.7

    def test_figures_that_agree_are_left_out(self):
        sampler = balance(n_max=400)
        assert len(exact(PowerObjective(0.5), sampler)) == 1
        assert len(exact(PowerObjective(0.5), balance())) == 4

    def test_two_responses_follow_the_mean_whatever_the_objective(self):
        (line,) = exact(LogObjective(), UniformSampler(group_size=2))
        assert line == "update: exact for f(p) = log p as far as 2 responses can see: f'(p) = 1"

    def test_prompts_given_up_early_follow_a_shorter_series(self):
        line = exact(LogObjective(), balance(give_up=GiveUpByPosterior()))[1]
        assert line.endswith("at the shortest, one block of 4: f'(p) = (1 - (1-p)^3) / p")

    def test_giving_up_says_nothing_where_it_changes_nothing(self):
        assert len(exact(LinearObjective(), balance(give_up=GiveUpByPosterior()))) == 1
        assert len(exact(LogObjective(), balance(give_up=GiveUpByPosterior(price=0.0)))) == 1

    def test_giving_up_after_single_responses_can_leave_nothing(self):
        line = exact(LogObjective(), balance(samples_per_round=1, give_up=GiveUpByPosterior()))[1]
        assert line.endswith("one block of 1: f'(p) = 0")

    def test_resumed_run_says_what_the_fresh_one_did(self):
        give_up = GiveUpByPosterior(price=1.0, explore_ratio=0.0)
        give_up.load_state_dict({"num_resolved": 900.0, "num_drawn": 1000.0})
        lines = exact(LogObjective(), balance(give_up=give_up))
        assert lines == exact(LogObjective(), balance(give_up=GiveUpByPosterior()))

    def test_allocation_from_history_gives_each_prompt_its_own_series(self):
        sampler = EstimatedSampler(responses_per_prompt=8)
        lines = followed(ExactAdvantage(objective=LogObjective()), sampler, WHOLE)
        assert "as far as 8 responses can see: f'(p) = (1 - (1-p)^7) / p" in lines[0]
        assert lines[1].startswith("  each prompt's history sets its number of responses")
        assert "f'(p) = (1 - (1-p)^17) / p with 18" in lines[1]

    def test_budget_of_a_step_is_named(self):
        line = exact(LogObjective(), balance(budget_per_step=100))[1]
        assert line.startswith("  a prompt cut off by sampler.budget_per_step = 100 follows log p as far as")

    def test_sampler_without_a_rule_of_counts_is_not_called_exact(self):
        sampler = SpreadSampler(min_spread=0.5, samples_per_round=4, n_max=32, group_size=4)
        assert exact(LogObjective(), sampler) == [
            "update: not computable: SpreadSampler stops by more than a prompt's counts"
        ]


class TestOtherEstimators:
    def test_official_balanced_rule_follows_the_logit_as_in_the_reference(self):
        """Reference section 6.1: 7.2, 3.9, 1.0, 3.9 at blocks of 8."""
        lines = followed(PoolMeanAdvantage(), balance(samples_per_round=8), GROUP)
        assert lines[0] == "update: near f(p) = logit(p)/2 - p"
        assert row(lines, "expected here") == pytest.approx([7.2, 3.9, 1.0, 3.9], abs=0.06)
        assert row(lines, "logit(p)/2 - p") == pytest.approx([24.5, 4.56, 1.0, 4.56], abs=0.06)

    def test_official_pos_rule_has_figures_of_its_own(self):
        """Reference section 6.1: 5.9, 2.8, 0.97, 1.6 at blocks of 8, here relative to the one at p = 0.5."""
        sampler = PositiveSampler(k_pos=1, samples_per_round=8, n_max=32, group_size=4)
        lines = followed(PoolMeanAdvantage(), sampler, GROUP)
        assert row(lines, "expected here") == pytest.approx([5.9 / 0.97, 2.8 / 0.97, 1.0, 1.6 / 0.97], rel=0.03)

    def test_explicit_weight_on_top_counts_twice(self):
        """Reference section 6.1: 169, 41, 2.2, 4.6."""
        lines = followed(PoolMeanAdvantage(weight_power=1.0), balance(samples_per_round=8), GROUP)
        assert lines[0] == "update: near f(p) = logit(p)/2 - p, times pass rate^-1"
        assert lines[1].endswith("difficulty counts twice")
        assert row(lines, "expected here") == pytest.approx([169 / 2.24, 41 / 2.24, 1.0, 4.6 / 2.24], rel=0.02)
        assert row(lines, "p^-1")[0] == 25.0

    @pytest.mark.parametrize("advantage", [PoolMeanAdvantage(), GroupNormalizedAdvantage(normalize_std=False)])
    def test_centering_on_the_mean_of_a_fixed_group_follows_the_mean(self, advantage):
        assert followed(advantage, UNIFORM, WHOLE) == ["update: exact for f(p) = p, times 3/4"]

    def test_leave_one_out_on_fixed_groups_follows_the_mean(self):
        assert followed(LeaveOneOutAdvantage(), UNIFORM, WHOLE) == ["update: exact for f(p) = p"]

    def test_group_sizes_that_differ_between_prompts_are_weights(self):
        lines = followed(LeaveOneOutAdvantage(), EstimatedSampler(responses_per_prompt=8), WHOLE)
        assert "exact" not in lines[0]
        assert lines[1].endswith("as planned for a step of these four:")
        assert row(lines, "expected here") == [6.0, 2.67, 1.0, 1.0]  # 18, 8, 3 and 3 responses

    @pytest.mark.parametrize("sampler", PLANNED)
    def test_mean_over_a_planned_number_of_responses_takes_that_weight_away(self, sampler):
        loss = policy_loss(reduction=PromptMeanReduction(token_scale=32))
        assert statement(LeaveOneOutAdvantage(), sampler, WHOLE, loss)[:-1] == [
            "update: exact for f(p) = p, whatever each prompt's number of responses"
        ]
        assert statement(GroupNormalizedAdvantage(normalize_std=False), sampler, WHOLE, loss)[:-1] == [
            "update: exact for f(p) = p, times (n-1)/n of each prompt's own number n of responses"
        ]

    def test_mean_over_a_planned_number_divides_the_table_too(self):
        """18, 8, 3 and 3 responses (the sums' weights) over the same numbers."""
        loss = policy_loss(reduction=PromptMeanReduction(token_scale=32))
        sums = row(followed(GroupNormalizedAdvantage(), PLANNED[0], WHOLE), "expected here")
        means = row(statement(GroupNormalizedAdvantage(), PLANNED[0], WHOLE, loss), "expected here")
        expected = [weight / size * 3 for weight, size in zip(sums, (18, 8, 3, 3), strict=True)]
        assert means == pytest.approx(expected, rel=1e-2)  # three digits are printed

    def test_mean_over_a_number_that_results_decide_bends(self):
        loss = policy_loss(reduction=PromptMeanReduction(token_scale=32))
        lines = statement(LeaveOneOutAdvantage(), balance(), WHOLE, loss)
        assert "exact" not in lines[0]
        assert any("loss/reduction=prompt_mean divides" in line for line in lines)

    def test_prompts_that_a_plan_leaves_out_have_no_weight(self):
        sampler = VipSampler(responses_per_prompt=8, variance=RlooVariance(), min_keep=5)
        loss = policy_loss(reduction=PromptMeanReduction(token_scale=32))
        lines = statement(LeaveOneOutAdvantage(), sampler, WHOLE, loss)
        assert "exact" not in lines[0]
        assert row(lines, "expected here") == [0.0, 1.0, 1.0, 1.0]

    def test_exact_estimator_names_what_plans_support(self):
        lines = followed(ExactAdvantage(objective=LogObjective()), PLANNED[2], WHOLE)
        assert "each prompt's history sets its number of responses" in lines[1]

    def test_grpo_is_far_from_its_limit_with_four_responses(self):
        lines = followed(GroupNormalizedAdvantage(), UNIFORM, WHOLE)
        assert lines[0].startswith("update: f(p) = 2 arcsin(sqrt(p)), f'(p) = 1/sqrt(p(1-p)), in the limit")
        assert row(lines, "expected here")[0] < 1.1
        assert row(lines, "1/sqrt(p(1-p))")[0] == 3.57

    def test_grpo_comes_near_its_limit_with_many(self):
        lines = followed(GroupNormalizedAdvantage(), UniformSampler(group_size=128), WHOLE)
        assert row(lines, "expected here")[1:] == pytest.approx(row(lines, "1/sqrt(p(1-p))")[1:], rel=0.05)

    @pytest.mark.parametrize(
        ("advantage", "words"),
        [
            (GroupNormalizedAdvantage(), "the mean of the kept group over its standard deviation"),
            (GroupNormalizedAdvantage(normalize_std=False), "the mean of the kept group, whatever"),
            (LeaveOneOutAdvantage(), "the mean of the others that are kept"),
        ],
    )
    def test_baselines_of_a_selected_group_are_described_without_an_objective(self, advantage, words):
        lines = followed(advantage, balance(), GROUP)
        assert words in lines[0]
        assert row(lines, "expected here")[0] > 1.5

    @pytest.mark.parametrize(
        ("rate", "sampler", "words"),
        [
            (PoolMeanRate(), balance(), "biased at a stopping time"),
            (PoolMeanRate(), UNIFORM, "not unbiased itself"),
            (PathCountingRate(), balance(), "not unbiased itself"),
            (PosteriorRate(), balance(), "leans towards its prior"),
        ],
    )
    def test_plug_in_says_what_is_wrong_with_its_estimate(self, rate, sampler, words):
        lines = followed(StratifiedAdvantage(objective=LogObjective(), pass_rate=rate), sampler, GROUP)
        assert lines[0].startswith(f"update: about f(p) = log p: {type(rate).__name__} is put in for p, ")
        assert words in lines[0]
        assert row(lines, "f(p) = log p") == [25.0, 5.0, 1.0, 0.556]

    def test_plug_in_of_the_first_round_has_no_figures(self):
        advantage = StratifiedAdvantage(objective=LogitObjective(), pass_rate=FirstRoundRate())
        assert len(followed(advantage, balance(), GROUP)) == 1

    def test_weighted_leave_one_out_is_exact_for_sizes_fixed_beforehand(self):
        sampler = EstimatedSampler(responses_per_prompt=8)
        assert followed(WeightedLeaveOneOutAdvantage(), sampler, WHOLE) == ["update: exact for the mean reward"]
        lines = followed(WeightedLeaveOneOutAdvantage(), balance(k_pos=1, k_neg=1), GROUP)
        assert lines[0] == "update: about the mean reward, biased because results decide when sampling ends"
        assert row(lines, "expected here")[0] > 1.5

    def test_weighted_leave_one_out_with_another_baseline_is_not_called_exact(self):
        advantage = WeightedLeaveOneOutAdvantage(baseline=FirstRoundRate())
        assert followed(advantage, UNIFORM, WHOLE) == [
            "update: about the mean reward, with FirstRoundRate as its baseline"
        ]

    def test_stopping_by_more_than_counts_has_no_figures(self):
        sampler = SpreadSampler(min_spread=0.5, samples_per_round=4, n_max=32, group_size=4)
        lines = followed(WeightedLeaveOneOutAdvantage(), sampler, GROUP)
        assert lines[1:] == ["  sampling ends by more than a prompt's counts: expected weights cannot be computed"]

    def test_single_responses_carry_no_signal(self):
        lines = followed(LeaveOneOutAdvantage(), UniformSampler(group_size=1), GROUP)
        assert lines[1:] == ["  no prompt can have a signal"]

    def test_estimator_of_ones_own_is_left_to_its_author(self):
        class MyAdvantage:
            def __call__(self, microbatch):
                return microbatch.rewards_B

        assert followed(MyAdvantage(), balance(), GROUP) == [
            "update: the rule of MyAdvantage; which objective it follows is not known here"
        ]


class TestBends:
    def bends(self, loss=None, **settings):
        return statement(ExactAdvantage(objective=LinearObjective()), balance(), GROUP, loss, **settings)[1:]

    def test_nothing_else_is_said_where_nothing_else_bends(self):
        (line,) = self.bends()
        assert line.startswith("  loss.importance_cap = 2 corrects")

    def test_switched_off_correction_is_named(self):
        (line,) = self.bends(policy_loss(importance_cap=0.0))
        assert line.startswith("  loss.importance_cap = 0: the engine")

    @pytest.mark.parametrize(
        ("reduction", "words"),
        [
            (
                TokenMeanReduction(),
                "loss/reduction=token_mean divides by the tokens kept: a ratio",
            ),
            (ResponseMeanReduction(), "loss/reduction=response_mean divides each response by its own length"),
            (
                PromptMeanReduction(token_scale=32),
                "loss/reduction=prompt_mean divides by a prompt's kept responses",
            ),
        ],
    )
    def test_reductions_but_the_constant_one_are_named(self, reduction, words):
        assert self.bends(policy_loss(reduction=reduction))[0].startswith(f"  {words}")

    def test_reduction_of_ones_own_is_named(self):
        class MyReduction(ConstantReduction):
            pass

        class Another(LossReduction):
            def token_weights(self, microbatch, counts):
                return microbatch.rewards_B

        assert len(self.bends(policy_loss(reduction=MyReduction(token_scale=3)))) == 1
        assert self.bends(policy_loss(reduction=Another()))[0].startswith("  Another is not the constant reduction")

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"num_minibatches": 4}, "data.num_minibatches = 4: only the first update of a step is on-policy"),
            ({"epochs_per_rollout": 2}, "data.epochs_per_rollout = 2: only the first update of a step is on-policy"),
            (
                {"num_minibatches": 4, "epochs_per_rollout": 2},
                "data.num_minibatches = 4 and data.epochs_per_rollout = 2: only the first update of a step is",
            ),
            ({"truncated": "mask"}, "rollout.truncated=mask counts responses that do not train"),
            ({"truncated": "exclude"}, "rollout.truncated=exclude: p is the pass rate among responses that end"),
            ({"max_grad_norm": 1.0}, "policy.max_grad_norm = 1 can shorten a step, not turn it"),
        ],
    )
    def test_each_setting_has_its_line(self, settings, words):
        assert len(self.bends(**settings)) == 2
        assert sum(line.startswith(f"  {words}") for line in self.bends(**settings)) == 1

    def test_a_curriculum_is_named_with_what_it_does_to_the_weights(self):
        lines = self.bends(curriculum=DifficultyBand(low=0.2, high=0.7, candidate_ratio=3, revisit_ratio=0.25))
        assert lines[0] == (
            "  curriculum: prompts with a believed pass rate in [0.2, 0.7], and prompts never seen, come first; a "
            "prompt counts by how often it is chosen, between 0.25 and 3.25 times as often as in uniform order, and "
            "nothing undoes that: the objective is the mean of f(p) under these weights"
        )
        assert lines[1:] == self.bends()

    def test_uniform_order_bends_nothing(self):
        assert self.bends(curriculum=UniformCurriculum()) == self.bends()

    @pytest.mark.parametrize("name", ["kl_coef", "entropy_coef"])
    def test_added_terms_are_named(self, name):
        assert f"  loss.{name} = 0.01 adds a term that is no part of f" in self.bends(policy_loss(**{name: 0.01}))

    def test_truncated_responses_that_count_as_failures_bend_nothing(self):
        assert self.bends(truncated="zero") == self.bends(truncated="grade")


def lines_with(word, *arguments, **settings):
    return [line for line in statement(*arguments, **settings) if word in line]


def test_a_refill_says_that_steps_get_longer_and_what_it_carries():
    arguments = (GroupNormalizedAdvantage(), UNIFORM, WHOLE)
    assert lines_with("refill", *arguments, refill=NoRefill()) == []
    (line,) = lines_with("refill", *arguments, refill=DynamicSampling())
    assert "the same expected direction, longer by the inverse of their share" in line
    assert len(lines_with("refill", *arguments, refill=DynamicSampling(keep_surplus=True))) == 2


def test_pruning_at_random_follows_what_is_followed_without_it():
    advantage = PoolMeanAdvantage()
    whole = statement(advantage, UNIFORM, WHOLE)
    pruned = statement(advantage, UNIFORM, PruningSelection(rate=0.5))
    assert pruned[0] == whole[0] == "update: exact for f(p) = p, times 3/4"
    assert any("pruned with probability 0.5" in line for line in pruned)
    assert not any("divides by what pruning left" in line for line in pruned)
    loss = policy_loss(reduction=TokenMeanReduction())
    (line,) = lines_with("pruning left", advantage, UNIFORM, PruningSelection(rate=0.5), loss)
    assert line.endswith("loss/reduction=constant does not")
    sampler = PruningSampler(sampler=UNIFORM, rate=0.5)
    assert len(lines_with("left out with probability 0.5", advantage, sampler, WHOLE)) == 1
    assert len(lines_with("pruning left", advantage, sampler, WHOLE, loss)) == 1


def test_selections_that_bend_the_update_say_so():
    for selection in (
        MaxVarianceSelection(group_size=2),
        LargestAdvantageSelection(rate=0.5),
        LargestAdvantageBatchSelection(rate=0.5, normalize_std=False),
        FixedFractionPruning(rate=0.5),
        BanditSelection(group_size=2),
    ):
        assert len(lines_with("selection: ", PoolMeanAdvantage(), UNIFORM, selection)) == 1


def test_what_the_largest_variance_does_to_weights_is_computed():
    """Of two kept of four, half right where both classes are there: P(mixed) / (p q) over a prompt with p = 1/2."""
    lines = statement(GroupNormalizedAdvantage(normalize_std=False), UNIFORM, MaxVarianceSelection(group_size=2))
    (row,) = [line for line in lines if "expected here" in line]
    weights = [(1 - p**4 - (1 - p) ** 4) / (p * (1 - p)) for p in (0.02, 0.1, 0.5, 0.9)]
    assert [float(x) for x in row.split()[-4:]] == pytest.approx([w / weights[2] for w in weights], abs=0.01)


class TestOtherTargets:
    def test_a_loss_with_a_target_of_its_own_says_which(self):
        head = PartitionHead(learning_rate=1e-3)
        loss = FlowRlLoss(reduction=ResponseMeanReduction(), partition=head, beta=15.0)
        lines = statement(GroupNormalizedAdvantage(), UniformSampler(group_size=4), WHOLE, loss, num_minibatches=2)
        assert lines == [
            "update: no f(p): towards the reference tilted by exp(15 * normalised reward - log Z) per token",
            "  data.num_minibatches = 2: only the first update of a step is on-policy; the others have another weight "
            "of each response and the same minimum",
            "  each response weighs pi/pi_old of the whole response, clipped at 0.8 and 1.2; the minimum does not "
            "depend on it",
        ]

    def test_labels_of_the_sampler_are_said_to_be_no_truth(self):
        sampler = OptPoSampler(vote_accuracy=0.7, threshold=99, samples_per_round=4, n_max=32, group_size=32)
        lines = statement(GroupNormalizedAdvantage(), sampler, WHOLE)
        assert lines[0].startswith("update: reward minus the mean of the kept group over its standard deviation")
        assert (
            "  OptPoSampler gives the rewards itself: p is the rate of its labels, whatever a reference says" in lines
        )

    def test_token_masks_say_what_they_leave_out(self):
        lines = statement(
            ExactAdvantage(objective=LinearObjective()),
            balance(),
            GROUP,
            token_masks=[CapoMask(), JackpotMask(cap=3.0)],
        )
        assert lines[-2] == (
            "  token_masks: capo leaves out tokens where the coming step is modelled to change A pi/pi_old by less "
            "than -0.2 or more than 0.28, or to shift log pi by more than 0.2 nat"
        )
        assert lines[-1].startswith(
            "  token_masks: jackpot keeps a token with probability min(1, p / (1 q)), weighed to"
        )
        assert lines[-1].endswith("at most 3: p the policy as it is, q the engine's")
