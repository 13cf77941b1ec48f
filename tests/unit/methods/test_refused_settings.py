"""Settings that cannot work are refused when a part is made: what is wrong, the value, the way out."""

from __future__ import annotations

import math
from functools import partial

import pytest

from ada_lightning.methods import advantages, objectives, refill, sampling, selection
from ada_lightning.methods.gradient_norms import ConstantNorm
from ada_lightning.methods.pass_rates import FirstRoundRate, LeaveOneOutRate, PathCountingRate
from ada_lightning.methods.published import cppo, gdpo, pods, rollout_bandits

BALANCE = partial(sampling.BalanceSampler, k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
POSITIVE = partial(sampling.PositiveSampler, k_pos=1, samples_per_round=4, n_max=32, group_size=4)
SPREAD = partial(sampling.SpreadSampler, min_spread=0.5, samples_per_round=4, n_max=32, group_size=4)
OPTPO = partial(sampling.OptPoSampler, vote_accuracy=0.7, threshold=5.0, samples_per_round=2, n_max=8, group_size=8)
ESTIMATED = partial(sampling.EstimatedSampler, responses_per_prompt=8)
VIP = partial(sampling.VipSampler, responses_per_prompt=8, variance=sampling.RlooVariance())
KNAPSACK = partial(sampling.KnapsackSampler, responses_per_prompt=8)
COBA = partial(sampling.CobaSampler, responses_per_prompt=8)
GVM = partial(sampling.GvmSampler, gradient_norm=ConstantNorm(), num_pilot=4, responses_per_prompt=8)
XRPO = sampling.XrpoSampler
DARS = partial(sampling.DarsSampler, num_pilot=8, n_max=32, hardness_weighted=False, normalize_std=True, group_size=8)
SPEED = partial(sampling.SpeedSampler, num_screen=4, num_continue=20, group_size=24)
COMMIT = partial(sampling.PilotCommitSampler, num_pilot=16, num_commit=48, min_rate=0.125, max_rate=0.75, group_size=64)
PRUNED = partial(sampling.PruningSampler, group_size=2, rate=0.5)
STRATIFIED = partial(selection.StratifiedSelection, group_size=4, thresholds=[0.5])
QUANTILE = partial(selection.QuantileSelection, group_size=4, num_strata=4)
OFFICIAL = advantages.PoolMeanAdvantage
GDPO = gdpo.GdpoAdvantage

REFUSED = [
    (BALANCE, {"k_pos": 20, "k_neg": 20}, r"k_pos \+ k_neg = 40 exceeds n_max = 32: .* raise n_max"),
    (BALANCE, {"group_size": 64}, "group_size = 64 exceeds n_max = 32: no pool could fill a group; raise n_max"),
    (BALANCE, {"samples_per_round": 5}, "samples_per_round = 5 does not divide n_max = 32; use n_max = 30 or another"),
    (BALANCE, {"k_neg": 0}, "k_neg must be at least 1; got 0"),
    (BALANCE, {"samples_per_round": 0}, "samples_per_round must be at least 1; got 0"),
    (BALANCE, {"budget_per_step": -1}, r"budget_per_step must be 0 \(no limit\) or positive; got -1"),
    (POSITIVE, {"k_pos": 99, "samples_per_round": 7, "group_size": 40}, "k_pos = 99 .*; group_size = 40 .*; .* = 7"),
    (SPREAD, {"min_spread": 0, "samples_per_round": 5}, "min_spread must be a positive number.*; got 0; .* = 5"),
    (SPREAD, {"min_spread": math.nan}, "min_spread must be a positive number"),
    (SPREAD, {"min_spread": math.inf}, "min_spread must be a positive number"),
    (OPTPO, {"vote_accuracy": 0.5}, r"vote_accuracy must be in \(0.5, 1\).*; got 0.5"),
    (OPTPO, {"vote_accuracy": 1.0}, r"vote_accuracy must be in \(0.5, 1\)"),
    (OPTPO, {"threshold": 1.0}, "threshold must be above 1 and finite, as odds; got 1.0"),
    (OPTPO, {"threshold": math.inf, "n_max": 7}, "threshold must be .*; .*samples_per_round = 2 does not divide"),
    (sampling.UniformSampler, {"group_size": 0}, "group_size must be at least 1; got 0"),
    (ESTIMATED, {"responses_per_prompt": 1}, "responses_per_prompt = 1 is less than n_min = 2: .* lower n_min"),
    (ESTIMATED, {"responses_per_prompt": 33}, "responses_per_prompt = 33 exceeds n_max = 32: .* raise n_max"),
    (ESTIMATED, {"n_min": 33}, "n_max = 32 is less than n_min = 33; raise n_max"),
    (ESTIMATED, {"gamma": math.nan}, r"gamma must be 0 \(uniform\) or positive, and finite; got nan"),
    (ESTIMATED, {"group_size": 33}, r"group_size must be in \[1, n_max = 32\]; got 33"),
    (ESTIMATED, {"n_min": 0, "gamma": -1.0, "group_size": 0}, "n_min must be .*; group_size must be .*; gamma must"),
    (VIP, {"variance": sampling.DrGrpoVariance(), "n_min": 2}, "n_min = 2 is less than 3: .*DrGrpoVar.*use n_min=3"),
    (VIP, {"n_min": 1}, "n_min = 1 is less than 2: .*RlooVariance"),
    (KNAPSACK, {"negative_n": 9}, r"negative_n must be in \[1, responses_per_prompt = 8\], .* exceed its total; got 9"),
    (KNAPSACK, {"positive_n": 0}, r"positive_n must be in \[1, .*; got 0"),
    (KNAPSACK, {"min_seen": -1}, r"min_seen must be 0 \(every prediction counts\) or more; got -1"),
    (KNAPSACK, {"mixed_chance": 1.0}, r"mixed_chance must be in \(0, 1\); got 1.0"),
    (COBA, {"kappa": 2.0}, "kappa must be above 2, for a density with a peak, and finite; got 2.0"),
    (COBA, {"window": 0}, "window must be at least 1 step; got 0"),
    (COBA, {"tau_min": 13.0}, "tau_min and tau_max must be positive, in this order, and finite; got 13.0, 12.0"),
    (COBA, {"tau_min": 0.0, "min_seen": -1}, "tau_min and tau_max must be positive.*; min_seen must be 0 .* got -1"),
    (GVM, {"num_pilot": 0}, "num_pilot must be at least 1; got 0"),
    (GVM, {"responses_per_prompt": 3}, "must lie between num_pilot = 4, which it includes, and n_max = 64; got 3"),
    (GVM, {"responses_per_prompt": 65}, "n_max = 64; got 65"),
    (
        GVM,
        {"alpha": math.nan, "beta": 1.5},
        "alpha must be positive and finite; got nan; beta must be at least 2 .*1.5",
    ),
    (XRPO, {"num_pilot": 1}, "num_pilot must be at least 2, so that its rewards have a spread; got 1"),
    (XRPO, {"num_rounds": 0, "significance": 1.0}, r"num_rounds must be .* got 0; significance must be in \(0, 1\)"),
    (XRPO, {"exploration": math.inf}, r"exploration must be 0 \(off\) or positive, and finite; got inf"),
    (DARS, {"num_pilot": 1}, "num_pilot must be at least 2, so that responses can differ; got 1"),
    (DARS, {"n_max": 7}, "n_max = 7 is less than num_pilot = 8; raise n_max"),
    (DARS, {"group_size": 33}, r"group_size must be in \[1, 32\], the most responses of a prompt; got 33"),
    (SPEED, {"num_screen": 1}, "num_screen must be at least 2: a single response never differs; got 1"),
    (SPEED, {"num_continue": 0, "group_size": 25}, r"num_continue must be at least 1; .*; group_size .* \[1, 4\]"),
    (COMMIT, {"num_pilot": 0, "num_commit": 0}, "num_pilot must be .* got 0; num_commit"),
    (COMMIT, {"min_rate": 0.8}, "must be 0 <= min_rate <= max_rate <= 1; got 0.8 and 0.75"),
    (COMMIT, {"min_rate": 0.51, "max_rate": 0.52}, r"no pilot of 16 has a pass rate in \[0.51, 0.52\]; widen the band"),
    (PRUNED, {"rate": 1.0}, r"sampler\.rate must be in \[0, 1\), the share that is pruned; got 1.0"),
    (sampling.GiveUpByPosterior, {"price": -1}, "`give_up.price` must not be negative; got -1"),
    (
        sampling.GiveUpByPosterior,
        {"explore_ratio": 2, "memory": 1.0},
        r"ratio must be in \[0, 1\]; .*memory must be in",
    ),
    (selection.BalancedSelection, {"group_size": 0}, "group_size must be at least 1; got 0"),
    (selection.RarerClassSelection, {"max_per_class": 0}, "max_per_class must be at least 1; got 0"),
    (pods.MaxVarianceSelection, {"group_size": 1}, "at least 2, one response has no variance; got 1; use group"),
    (STRATIFIED, {"thresholds": [0.5, 0.5]}, r"thresholds must increase; got \[0.5, 0.5\]"),
    (STRATIFIED, {"thresholds": []}, r"thresholds is empty; name at least one cut point .* such as \[0.5\]"),
    (STRATIFIED, {"thresholds": [0.5, math.inf]}, "thresholds must be finite"),
    (STRATIFIED, {"thresholds": [math.nan]}, "thresholds must be finite"),
    (STRATIFIED, {"group_size": 2, "thresholds": [0.3, 0.6]}, "group_size = 2 is less than the number of strata = 3"),
    (QUANTILE, {"num_strata": 1}, "num_strata must be at least 2; got 1"),
    (QUANTILE, {"num_strata": 5}, "group_size = 4 is less than the number of strata = 5: .* use group_size = 5"),
    (selection.ThinnedSelection, {"full_advantage": 0.0}, r"selection\.full_advantage must be above 0 and finite; got"),
    (selection.ThinnedSelection, {"full_advantage": math.nan}, r"selection\.full_advantage must be above 0 and finite"),
    (
        rollout_bandits.BanditSelection,
        {"group_size": 0, "exploration": -1, "ridge": 0, "memory": 2},
        "group_size must .* got 0; .*exploration must .* -1; .*ridge .* 0; .*memory .* 2",
    ),
    *(
        (rule, {"rate": 1.0}, r"selection\.rate must be in \[0, 1\), the share that is pruned; got 1\.0")
        for rule in (
            cppo.LargestAdvantageSelection,
            partial(cppo.LargestAdvantageBatchSelection, normalize_std=True),
            selection.PruningSelection,
        )
    ),
    *(
        (
            partial(OFFICIAL, weight_power=1.0),
            {"pass_rate": rate},
            rf"power of {type(rate).__name__}, .*; set adv.*max_w",
        )
        for rate in (FirstRoundRate(), PathCountingRate(), LeaveOneOutRate())
    ),
    (
        OFFICIAL,
        {"weight_power": -1, "max_weight": 0.5},
        "weight_power must not be negative; got -1.*max_weight must be",
    ),
    (
        advantages.NoveltyAdvantage,
        {"scale": -1, "cap": math.inf},
        "scale must be 0 or positive, .* -1; .*cap .* got inf",
    ),
    (GDPO, {"weights": {}}, "advantage.weights needs a component whose weight is not 0"),
    (GDPO, {"weights": {"correct": 0.0}}, "advantage.weights needs a component whose weight is not 0"),
    (GDPO, {"weights": {"correct": math.nan, "format": "much"}}, "correct must be a finite number; got nan; .*'much'"),
    (GDPO, {"weights": {"correct": True}}, "weights.correct must be a finite number; got True"),
    (objectives.PowerObjective, {"alpha": 0.0}, r"alpha must be in \(0, 1\]; got 0.0; for log p use objective=log"),
    (objectives.PowerObjective, {"alpha": 1.5}, r"objective.alpha must be in \(0, 1\]; got 1.5"),
    (objectives.PassAtKObjective, {"k": 0}, "objective.k must be at least 1; got 0"),
    (
        refill.DynamicSampling,
        {"oversampling": 0.5, "refill_ratio": -1},
        r"oversampling must .* 0\.5; .*refill_ratio .*-1",
    ),
    (refill.DynamicSampling, {"max_ratio": math.inf}, r"refill\.max_ratio = inf must be finite .* never end"),
    (
        refill.AdaptiveDynamicSampling,
        {"min_ratio": -1, "slack": 0.5, "max_ratio": 1},
        r"min_ratio must not be negative; got -1; .*slack must .* 0\.5; .*max_ratio = 1",
    ),
]


@pytest.mark.parametrize(("make", "settings", "message"), REFUSED)
def test_settings_that_cannot_work_are_refused_together(make, settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


@pytest.mark.parametrize("rate", [FirstRoundRate(), PathCountingRate(), LeaveOneOutRate()])
def test_a_rate_that_may_be_0_goes_without_a_weight_or_with_a_bound(rate):
    OFFICIAL(weight_power=0.0, pass_rate=rate)
    OFFICIAL(weight_power=1.0, max_weight=32.0, pass_rate=rate)
