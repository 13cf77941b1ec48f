from __future__ import annotations

import math

import pytest

from ada_lightning.analysis.statement import describe_update
from ada_lightning.core.protocols import Advantage
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    GroupNormalizedAdvantage,
    HistoryBaselineAdvantage,
    LeaveOneOutAdvantage,
    PoolMeanAdvantage,
    StratifiedAdvantage,
    WeightedLeaveOneOutAdvantage,
)
from ada_lightning.methods.curriculum import DifficultyBand, UniformCurriculum
from ada_lightning.methods.objectives import (
    LinearObjective,
    LogObjective,
    PassAtKObjective,
    PowerObjective,
)
from ada_lightning.methods.pass_rates import FirstRoundRate, PathCountingRate, PoolMeanRate, PosteriorRate
from ada_lightning.methods.published.coba import CobaSampler
from ada_lightning.methods.published.cppo import LargestAdvantageBatchSelection, LargestAdvantageSelection
from ada_lightning.methods.published.knapsack import KnapsackSampler
from ada_lightning.methods.published.optpo import OptPoSampler
from ada_lightning.methods.published.pods import MaxVarianceSelection
from ada_lightning.methods.published.pruning import PruningSampler, PruningSelection
from ada_lightning.methods.published.reinforce_ada import EstimatedSampler
from ada_lightning.methods.published.rollout_bandits import BanditSelection
from ada_lightning.methods.published.vip import RlooVariance, VipSampler
from ada_lightning.methods.refill import DynamicSampling, NoRefill
from ada_lightning.methods.sampling import (
    BalanceSampler,
    FirstVisitSampler,
    GiveUpByPosterior,
    PositiveSampler,
    SpreadSampler,
    UniformSampler,
)
from ada_lightning.methods.selection import AllSelection, BalancedSelection
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

TITLES = ("  this changes it:", "  also:")
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


SUMS = "loss/reduction=constant sums over"


def statement(advantage, sampler, selection, loss=None, **settings):
    neutral = {"num_minibatches": 1, "max_grad_norm": math.inf, "truncated": "grade"}
    lines = describe_update(
        advantage=advantage,
        sampler=sampler,
        selection=selection,
        loss=loss or policy_loss(),
        **(neutral | settings),
    )
    return [line.replace("  - ", "  ", 1) for line in lines if line not in TITLES]


def followed(advantage, sampler, selection):
    """All but the lines about the scale of a sum and about importance weights, which say nothing of single methods."""
    return [line for line in statement(advantage, sampler, selection)[:-1] if SUMS not in line]


def row(lines, name):
    (line,) = [line for line in lines if line.strip().startswith(name)]
    return [float(figure) for figure in line.strip().removeprefix(name).split()]


SPREAD = SpreadSampler(min_spread=0.5, samples_per_round=4, n_max=32, group_size=4)
BY_PROMPT = policy_loss(reduction=PromptMeanReduction(token_scale=32))
MEAN = "update: increases the mean over prompts of f(p) ="
EXACTLY = "increases the mean over prompts of f(p) = p (p: pass rate), exactly"
ROUGHLY = "increases roughly the mean over prompts of f(p) ="
UNKNOWN = "stops by more than right and wrong counts, so its objective is unknown"
LOG = "update: increases the mean over prompts of f(p) = log p (p: pass rate), exactly as far as"
CUT_OFF = "update: increases about the mean over prompts of f(p) = log p (p: pass rate), as far as"


GIVES_UP = GiveUpByPosterior()
NEVER_GIVES_UP = GiveUpByPosterior(price=0.0)


@pytest.mark.parametrize(
    ("objective", "sampler", "first", "second"),
    [
        (LinearObjective(), balance(), f"{MEAN} p (p: pass rate), exactly", ""),
        (PassAtKObjective(4), balance(), f"{MEAN} 1 - (1-p)^4 (p: pass rate), exactly", ""),
        (LogObjective(), balance(), f"{LOG} 32 responses can see: f'(p) = (1 - (1-p)^31) / p", ""),
        (LogObjective(), UniformSampler(group_size=2), f"{LOG} 2 responses can see: f'(p) = 1", ""),
        (
            LogObjective(),
            FirstVisitSampler(group_size=2, num_first=8),
            f"{LOG} 8 responses can see: f'(p) = (1 - (1-p)^7) / p",
            "its series: for example f'(p) = 1 with 2, f'(p) = (1 - (1-p)^7) / p with 8",
        ),
        (LogObjective(), balance(give_up=GIVES_UP), LOG, "the shortest, of one block of 4: f'(p) = (1 - (1-p)^3) / p"),
        (LogObjective(), balance(samples_per_round=1, give_up=GIVES_UP), LOG, "one block of 1: f'(p) = 0"),
        (LinearObjective(), balance(give_up=GIVES_UP), f"{MEAN} p (p: pass rate), exactly", ""),
        (LogObjective(), balance(give_up=NEVER_GIVES_UP), LOG, ""),
        (LogObjective(), balance(budget_per_step=100), CUT_OFF,
         "sampler.budget_per_step = 100 cuts off follows log p as far"),
        (PowerObjective(0.5), balance(n_max=400), f"{MEAN} p^0.5 (p: pass rate), exactly", ""),  # figures that agree
        (LogObjective(), SPREAD, f"update: SpreadSampler {UNKNOWN}", ""),
        *((LogObjective(), each, LOG, "the history of a prompt sets its number of responses") for each in PLANNED),
    ],
)  # fmt: skip
def test_exact_estimator_names_its_objective_and_how_much_of_it_responses_can_see(objective, sampler, first, second):
    lines = followed(ExactAdvantage(objective=objective), sampler, GROUP)
    assert len(lines) == 1 + bool(second)
    assert lines[0].startswith(first)
    assert second in lines[-1]


def test_partly_supported_objective_has_its_figures():
    lines = followed(ExactAdvantage(objective=PowerObjective(0.5)), balance(), GROUP)
    assert lines[0] == (
        f"{MEAN} p^0.5 (p: pass rate), exactly as far as 32 responses can see: 31 terms of an infinite series"
    )
    assert row(lines, "f'(p) of the objective") == pytest.approx([0.5 * p**-0.5 for p in (0.02, 0.1, 0.5, 0.9)], 5e-3)
    assert row(lines, "f'(p) supported")[0] < 2.7


def test_each_prompts_own_series_is_named_by_its_ends():
    lines = followed(ExactAdvantage(objective=LogObjective()), PLANNED[0], WHOLE)
    assert "as far as 8 responses can see: f'(p) = (1 - (1-p)^7) / p" in lines[0]
    assert "f'(p) = (1 - (1-p)^17) / p with 18" in lines[1]


def test_resumed_run_says_what_the_fresh_one_did():
    give_up = GiveUpByPosterior(price=1.0, explore_ratio=0.0)
    give_up.load_state_dict({"num_resolved": 900.0, "num_drawn": 1000.0})
    resumed, fresh = (
        followed(ExactAdvantage(objective=LogObjective()), balance(give_up=each), GROUP)
        for each in (give_up, GiveUpByPosterior())
    )
    assert resumed == fresh


@pytest.mark.parametrize(
    ("advantage", "sampler", "first", "name", "expected"),
    [
        # Reference section 6.1: 7.2, 3.9, 1.0, 3.9 at blocks of 8; of Seq-pos 5.9, 2.8, 0.97, 1.6; weighted 169, 41 ...
        (PoolMeanAdvantage(), balance(samples_per_round=8), f"{ROUGHLY} logit(p)/2 - p (p: pass rate)", "expected here",
         [7.2, 3.9, 1.0, 3.9]),
        (PoolMeanAdvantage(), balance(samples_per_round=8), f"{ROUGHLY} logit(p)/2 - p (p: pass rate)",
         "logit(p)/2 - p", [24.5, 4.56, 1.0, 4.56]),
        (PoolMeanAdvantage(), PositiveSampler(k_pos=1, samples_per_round=8, n_max=32, group_size=4),
         f"{ROUGHLY} logit(p)/2 - p (p: pass rate)", "expected here", [5.9 / 0.97, 2.8 / 0.97, 1.0, 1.6 / 0.97]),
        (PoolMeanAdvantage(weight_power=1.0), balance(samples_per_round=8),
         f"{ROUGHLY} logit(p)/2 - p (p: pass rate), times pass rate^-1", "expected here",
         [169 / 2.24, 41 / 2.24, 1.0, 4.6 / 2.24]),
        (PoolMeanAdvantage(weight_power=1.0), balance(samples_per_round=8), ROUGHLY, "p^-1", [25.0, 5.0, 1.0, 0.556]),
        (StratifiedAdvantage(objective=LogObjective(), pass_rate=PoolMeanRate()), balance(),
         "increases about the mean over prompts of f(p) = log p (p: pass rate): PoolMeanRate stands in for p, and is "
         "biased because rewards decide when sampling stops", "f(p) = log p",
         [25.0, 5.0, 1.0, 0.556]),
    ],
)  # fmt: skip
def test_weights_of_selected_groups_are_those_of_the_reference(advantage, sampler, first, name, expected):
    lines = followed(advantage, sampler, GROUP)
    assert lines[0].startswith(f"update: {first}")
    assert row(lines, name) == pytest.approx(expected, rel=0.03)
    assert ("difficulty counts twice" in lines[1]) == (getattr(advantage, "weight_power", 0) > 0)


@pytest.mark.parametrize(
    ("advantage", "sampler", "selection", "reduction", "expected"),
    [
        (PoolMeanAdvantage(), UNIFORM, WHOLE, None, f"{EXACTLY}, times 3/4"),
        (GroupNormalizedAdvantage(normalize_std=False), UNIFORM, WHOLE, None, f"{EXACTLY}, times 3/4"),
        (LeaveOneOutAdvantage(), UNIFORM, WHOLE, None, EXACTLY),
        (WeightedLeaveOneOutAdvantage(), PLANNED[0], WHOLE, None, "increases the mean reward, exactly"),
        (WeightedLeaveOneOutAdvantage(baseline=FirstRoundRate()), UNIFORM, WHOLE, None,
         "increases about the mean reward, with FirstRoundRate as its baseline"),
        *(
            (LeaveOneOutAdvantage(), sampler, WHOLE, BY_PROMPT,
             f"{EXACTLY}, for any number of responses of a prompt")
            for sampler in PLANNED
        ),
        *(
            (GroupNormalizedAdvantage(normalize_std=False), sampler, WHOLE, BY_PROMPT,
             f"{EXACTLY}, times (n-1)/n with n the number of responses of each prompt")
            for sampler in PLANNED
        ),
    ],
)  # fmt: skip
def test_what_is_exact_needs_one_line(advantage, sampler, selection, reduction, expected):
    lines = statement(advantage, sampler, selection, reduction)[:-1]
    assert [line for line in lines if SUMS not in line] == [f"update: {expected}"]


@pytest.mark.parametrize(
    ("advantage", "sampler", "selection", "reduction", "words", "weights"),
    [
        # 18, 8, 3 and 3 responses
        (LeaveOneOutAdvantage(), PLANNED[0], WHOLE, None, "the other kept responses", [6.0, 2.67, 1.0, 1.0]),
        # Of two kept of four, half right where both classes are there: P(mixed) / (p q) over a prompt with p = 1/2.
        (GroupNormalizedAdvantage(normalize_std=False), UNIFORM, MaxVarianceSelection(group_size=2), None,
         "the kept group", [(1 - p**4 - (1 - p) ** 4) / (p * (1 - p)) / 3.5 for p in (0.02, 0.1, 0.5, 0.9)]),
        (GroupNormalizedAdvantage(), UniformSampler(group_size=128), WHOLE, None, "2 arcsin(sqrt(p))",
         [1.667, 1.0, 1.667]),
        (GroupNormalizedAdvantage(), balance(), GROUP, None, "the kept group over its standard deviation", None),
        (GroupNormalizedAdvantage(normalize_std=False), balance(), GROUP, None, "the kept group; the pool", None),
        (LeaveOneOutAdvantage(), balance(), GROUP, None, "the mean of the other kept responses", None),
        (WeightedLeaveOneOutAdvantage(), balance(k_pos=1, k_neg=1), GROUP, None,
         "about the mean reward, biased because rewards decide when sampling ends", None),
    ],
)  # fmt: skip
def test_what_is_not_exact_has_the_weights_of_prompts(advantage, sampler, selection, reduction, words, weights):
    lines = statement(advantage, sampler, selection, reduction)
    assert words in lines[0]
    assert "exact" not in lines[0]
    found = row(lines, "expected here")
    if weights is None:
        assert found[0] > 1.5
    else:
        assert found[-len(weights) :] == pytest.approx(weights, rel=0.05, abs=0.01)
    is_planned = isinstance(sampler, EstimatedSampler | VipSampler)
    assert any("as planned for a step of these four:" in line for line in lines) == is_planned


def test_mean_over_a_planned_number_divides_the_table_too():
    """18, 8, 3 and 3 responses (the sums' weights) over the same numbers."""
    sums = row(followed(GroupNormalizedAdvantage(), PLANNED[0], WHOLE), "expected here")
    means = row(statement(GroupNormalizedAdvantage(), PLANNED[0], WHOLE, BY_PROMPT), "expected here")
    expected = [weight / size * 3 for weight, size in zip(sums, (18, 8, 3, 3), strict=True)]
    assert means == pytest.approx(expected, rel=1e-2)  # three digits are printed


def test_a_mean_over_a_number_that_rewards_decide_is_not_exact():
    lines = statement(LeaveOneOutAdvantage(), balance(), WHOLE, BY_PROMPT)
    assert "exact" not in lines[0]
    assert any("loss/reduction=prompt_mean divides" in line for line in lines)


def test_grpo_is_far_from_its_limit_with_four_responses():
    lines = followed(GroupNormalizedAdvantage(), UNIFORM, WHOLE)
    assert lines[0] == (
        "update: with large groups it would increase the mean over prompts of f(p) = 2 arcsin(sqrt(p)) (p: pass rate), "
        "f'(p) = 1/sqrt(p(1-p)); these groups have 4 responses"
    )
    assert row(lines, "expected here")[0] < 1.1
    assert row(lines, "1/sqrt(p(1-p))")[0] == 3.57


@pytest.mark.parametrize(
    ("rate", "sampler", "words"),
    [
        (PoolMeanRate(), UNIFORM, "not unbiased itself"),
        (PathCountingRate(), balance(), "not unbiased itself"),
        (PosteriorRate(), balance(), "leans towards its prior"),
        (FirstRoundRate(), balance(), "not unbiased itself"),
    ],
)
def test_plug_in_says_what_is_wrong_with_its_estimate(rate, sampler, words):
    lines = followed(StratifiedAdvantage(objective=LogObjective(), pass_rate=rate), sampler, GROUP)
    name = type(rate).__name__
    first = f"update: increases about the mean over prompts of f(p) = log p (p: pass rate): {name} stands in for p, "
    assert lines[0].startswith(first)
    assert words in lines[0]
    assert (len(lines) == 1) == isinstance(rate, FirstRoundRate)  # whose counts are not those of the pool


class MyAdvantage(Advantage):
    """One that nobody knows."""


@pytest.mark.parametrize(
    ("advantage", "sampler", "last"),
    [
        (
            WeightedLeaveOneOutAdvantage(),
            SPREAD,
            "sampling stops by more than right and wrong counts, so expected weights cannot",
        ),
        (LeaveOneOutAdvantage(), UniformSampler(group_size=1), "no prompt can have a signal"),
        (MyAdvantage(), balance(), "update: follows the rule of MyAdvantage; its objective is not known here"),
    ],
)
def test_where_there_are_no_figures_the_reason_is_given(advantage, sampler, last):
    assert followed(advantage, sampler, GROUP)[-1].strip().startswith(last)


def caveats(loss=None, **settings):
    """What is said below the first line; by itself only that importance weights correct."""
    return statement(ExactAdvantage(objective=LinearObjective()), balance(), GROUP, loss, **settings)[1:]


class Another(LossReduction):
    def token_weights(self, microbatch, counts):
        return microbatch.rewards_B


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": policy_loss(importance_cap=0.0)}, "loss.importance_cap = 0: the engine"),
        (
            {"loss": policy_loss(reduction=TokenMeanReduction())},
            "loss/reduction=token_mean divides by the number of kept tokens",
        ),
        (
            {"loss": policy_loss(reduction=ResponseMeanReduction())},
            "loss/reduction=response_mean divides each response",
        ),
        ({"loss": BY_PROMPT}, "loss/reduction=prompt_mean divides by the kept responses of a prompt"),
        ({"loss": policy_loss(reduction=Another())}, "Another is not the constant reduction"),
        ({"loss": policy_loss(kl_coef=0.01)}, "loss.kl_coef = 0.01 adds a term that is not part of f"),
        ({"loss": policy_loss(entropy_coef=0.01)}, "loss.entropy_coef = 0.01 adds a term that is not part of f"),
        ({"num_minibatches": 4}, "data.num_minibatches = 4: only the first update of a step is on-policy"),
        ({"epochs_per_rollout": 2}, "data.epochs_per_rollout = 2: only the first update of a step is on-policy"),
        (
            {"num_minibatches": 4, "epochs_per_rollout": 2},
            "data.num_minibatches = 4 and data.epochs_per_rollout = 2: only the first update of a step is",
        ),
        ({"truncated": "mask"}, "rollout.truncated=mask: responses that do not train still count"),
        ({"truncated": "exclude"}, "rollout.truncated=exclude: p is the pass rate among responses that end"),
        ({"max_grad_norm": 1.0}, "policy.max_grad_norm = 1 can shorten an update, but does not change its direction"),
        (
            {"curriculum": DifficultyBand(low=0.2, high=0.7)},
            "curriculum: prompts with a believed pass rate in [0.2, 0.7]",
        ),
        ({"token_masks": [CapoMask()]}, "token_masks: capo leaves out tokens where the coming step is modelled to"),
        (
            {"token_masks": [JackpotMask(cap=3.0)]},
            "token_masks: jackpot keeps a token with probability min(1, p / (1 q))",
        ),
    ],
)
def test_each_setting_that_changes_the_update_has_its_line(settings, words):
    lines = caveats(**settings)
    assert sum(line.startswith(f"  {words}") for line in lines) == 1
    usual = [line for line in caveats() if settings.get("loss") is None or settings["loss"].importance_cap]
    assert len(lines) == 1 + len(usual)


def test_what_changes_nothing_is_not_named():
    (line,) = caveats()
    assert line.startswith("  loss.importance_cap = 2 corrects")
    for settings in ({"curriculum": UniformCurriculum()}, {"truncated": "zero"}, {"refill": NoRefill()}):
        assert caveats(**settings) == [line]


def lines_with(word, *arguments, **settings):
    return [line for line in statement(*arguments, **settings) if word in line]


def test_a_refill_says_that_steps_get_longer():
    arguments = (GroupNormalizedAdvantage(), UNIFORM, WHOLE)
    (line,) = lines_with("refill", *arguments, refill=DynamicSampling())
    assert "the same expected direction, longer by the inverse of their share" in line


def test_a_refill_takes_what_a_baseline_from_history_makes_of_equal_rewards():
    (line,) = lines_with(
        "equal rewards is missing", HistoryBaselineAdvantage(), UNIFORM, WHOLE, refill=DynamicSampling()
    )
    assert line.startswith("  refill: groups without a signal are replaced")
    assert "exact" not in statement(HistoryBaselineAdvantage(), UNIFORM, WHOLE, refill=DynamicSampling())[0]


def test_pruning_at_random_follows_what_is_followed_without_it():
    advantage = PoolMeanAdvantage()
    whole = statement(advantage, UNIFORM, WHOLE)
    pruned = statement(advantage, UNIFORM, PruningSelection(rate=0.5))
    assert pruned[0] == whole[0] == f"update: {EXACTLY}, times 3/4"
    assert any("pruned with probability 0.5" in line for line in pruned)
    assert not any("divides by what pruning left" in line for line in pruned)
    loss = policy_loss(reduction=TokenMeanReduction())
    for divided in (loss, BY_PROMPT):
        (line,) = lines_with("pruning left", advantage, UNIFORM, PruningSelection(rate=0.5), divided)
        assert line.endswith("loss/reduction=constant does not")
    sampler = PruningSampler(group_size=4, rate=0.5)
    assert len(lines_with("left out with probability 0.5", advantage, sampler, WHOLE)) == 1
    assert len(lines_with("pruning left", advantage, sampler, WHOLE, loss)) == 1


def test_selections_that_change_the_update_say_so():
    for selection in (
        MaxVarianceSelection(group_size=2),
        LargestAdvantageSelection(rate=0.5),
        LargestAdvantageBatchSelection(rate=0.5, normalize_std=False),
        BanditSelection(group_size=2),
    ):
        assert len(lines_with("selection: ", PoolMeanAdvantage(), UNIFORM, selection)) == 1


def test_a_loss_with_a_target_of_its_own_says_which():
    loss = FlowRlLoss(reduction=ResponseMeanReduction(), partition=PartitionHead(learning_rate=1e-3), beta=15.0)
    lines = statement(GroupNormalizedAdvantage(), UNIFORM, WHOLE, loss, num_minibatches=2)
    assert lines == [
        "update: follows no f(p): it moves towards the reference policy, tilted by exp(15 * normalised reward - log Z) "
        "per token",
        "  data.num_minibatches = 2: only the first update of a step is on-policy; the others weigh each "
        "response differently and have the same minimum",
        "  each response weighs pi/pi_old of the whole response, clipped at 0.8 and 1.2; the minimum does not "
        "depend on it",
    ]


def test_labels_of_the_sampler_are_said_to_be_no_truth():
    sampler = OptPoSampler(vote_accuracy=0.7, threshold=99, samples_per_round=4, n_max=32, group_size=32)
    lines = statement(GroupNormalizedAdvantage(), sampler, WHOLE)
    assert "  OptPoSampler gives the rewards itself: p is the rate of its labels, which may be wrong" in lines


def test_what_changes_the_update_stands_before_what_is_also_to_know():
    parts = {"advantage": LeaveOneOutAdvantage(), "sampler": UNIFORM, "selection": WHOLE, "loss": policy_loss()}
    settings = {"max_grad_norm": 1.0, "truncated": "grade"}
    changed = describe_update(**parts, **settings, num_minibatches=2)
    changes, also = (changed.index(title) for title in TITLES)
    assert [line.split()[1] for line in changed[changes + 1 : also]] == ["data.num_minibatches"]
    assert [line.split()[1] for line in changed[also + 1 :]] == ["loss.importance_cap", "policy.max_grad_norm"]
    assert "loss/reduction=constant sums" in describe_update(**parts, **settings, num_minibatches=1)[2]
    assert TITLES[0] not in describe_update(**parts, **settings, num_minibatches=1)
    own = describe_update(**parts, num_minibatches=1, max_grad_norm=math.inf, truncated="grade", corrects_engine=False)
    scale = "loss/reduction=constant sums over a prompt's 4 responses: the update is 4 times as large"
    assert own == [f"update: {EXACTLY}", "  also:", f"  - {scale}"]
