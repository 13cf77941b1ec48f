"""Advantages that compare a reward with a baseline: ``weight * (r - baseline) / scale``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ada_lightning.core.options import option, preset, use
from ada_lightning.core.protocols import Advantage, LogRatios, PassRate, States, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.functional import Values, common_mean, kept_rewards, unbiased_std, whitened_groups
from ada_lightning.methods.pass_rates import LeaveOneOutRate, PoolMeanRate
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection

_POOL_MEAN = PoolMeanRate()
_LEAVE_ONE_OUT = LeaveOneOutRate()
_SMALLEST_RATE = 1e-6
"""Keeps ``p^-power`` finite where the rate is 0. By the pool's mean all advantages are 0 there."""
_WHITENING_EPSILON = 1e-8
_GROUP_EPSILON = 1e-6


class BaselineAdvantage(Advantage):
    """``weight * (r - baseline) / scale`` of every kept response. A rule says what the three are.

    Each of them is one number, or one for each kept response in the order of ``group.kept``, shape ``(G,)``.
    """

    def expected(self, group: ResponseGroup) -> float | Values:
        """Return the baseline, in the reward's unit."""
        raise NotImplementedError(f"{type(self).__name__} needs a method expected(group)")

    def weight(self, group: ResponseGroup) -> float | Values:
        """Return what the difference between reward and baseline is multiplied by."""
        return 1.0

    def scale(self, group: ResponseGroup) -> float:
        """Return what it is divided by."""
        return 1.0

    def of_group(self, group: ResponseGroup) -> Values:
        """Return the advantages. Shape ``(G,)``."""
        return self.weight(group) * (kept_rewards(group) - self.expected(group)) / self.scale(group)


@option("advantage", "grpo")
@dataclass(kw_only=True, eq=False)
class GroupNormalizedAdvantage(BaselineAdvantage):
    """GRPO: reward standardised within the group that trains (arXiv:2402.03300).

    ``(r - mean) / (std + 1e-6)`` or ``r - mean``, by mean and standard deviation of the kept group.

    Source:
        DeepSeekMath, arXiv:2402.03300, section 4.1.2; Dr. GRPO, arXiv:2503.20783.
    """

    traits = frozenset({Trait.COMPARES_KEPT})

    normalize_std: bool = True
    """Divide by the group's standard deviation (unbiased, plus 1e-6). False gives Dr. GRPO's rule."""

    def expected(self, group: ResponseGroup) -> float:
        """Mean of the kept group."""
        return common_mean(kept_rewards(group))

    def scale(self, group: ResponseGroup) -> float:
        """Its standard deviation, if asked."""
        return unbiased_std(kept_rewards(group)) + _GROUP_EPSILON if self.normalize_std else 1.0


preset(
    "advantage",
    "dr_grpo",
    "grpo",
    text="Dr. GRPO: reward minus the group's mean, without its standard deviation (arXiv:2503.20783).",
    normalize_std=False,
)

_WITHOUT_STD = GroupNormalizedAdvantage(normalize_std=False)


@option("advantage", "rloo")
class LeaveOneOutAdvantage(BaselineAdvantage):
    """RLOO: reward minus the mean of the others of its kept group, so the baseline is independent of the response.

    It is ``(r - mean) n / (n - 1)``, and 0 in a group of one.

    Source:
        Ahmadian et al., "Back to Basics", arXiv:2402.14740; Kool et al. 2019.
    """

    traits = frozenset({Trait.COMPARES_KEPT})

    def expected(self, group: ResponseGroup) -> float:
        """Mean of the kept group; weight and scale take the response itself out of it."""
        return common_mean(kept_rewards(group))

    def weight(self, group: ResponseGroup) -> float:
        """The group's size n."""
        return float(len(group.kept))

    def scale(self, group: ResponseGroup) -> float:
        """``n - 1``."""
        return float(max(len(group.kept) - 1, 1))


@option("advantage", "official", pass_rate=use(PoolMeanRate))
@dataclass(kw_only=True, eq=False)
class PoolMeanAdvantage(Checked, BaselineAdvantage):
    """The official code of Reinforce-Ada: reward minus the mean of the whole pool (arXiv:2510.04996v3, Algorithm 2).

    The mean is over every response sampled for the prompt, not over the few kept. With balanced selection the kept
    group's own mean would be 1/2 for every prompt and erase difficulty. Balanced selection also changes what is
    optimised: the expected update is that of ``logit(p)/2 - p``, not of ``p``. The paper's prose multiplies by ``1/p``
    on top, which then counts the difficulty twice.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, Algorithm 2, line 19 and the text below it; Algorithm 1, line 15 (Est);
        RLHFlow/Reinforce-Ada at 05be605, ``core_algos.py`` L262-373 with ``global_stat_est`` on.
    """

    traits = frozenset({Trait.COMPARES_DRAWN})

    normalize_std: bool = False
    """Also divide by the pool's standard deviation (unbiased, plus 1e-6). The official script does not."""
    weight_power: float = 0.0
    """Multiply by ``p^-power``: 0 is the official code, 1 the prose of the paper for Seq, 1/2 its Est."""
    max_weight: float = math.inf
    """Largest such factor; FirstRoundRate and PathCountingRate, which may be 0, need one."""
    pass_rate: PassRate = _POOL_MEAN
    """The baseline, and what the weight is computed from: PoolMeanRate, FirstRoundRate, PosteriorRate or
    PathCountingRate. The paper's is the pool's mean, which is 0 only where nothing was right and all advantages are 0;
    the mean of the first round may be 0 where a later one found a positive, and gets ``max_weight`` there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pass_rate.is_known_before:  # history holds the baseline
            self.traits = frozenset({Trait.TRAINS_EQUAL_REWARDS, Trait.IS_UNCENTRED})

    def _checks(self) -> Iterator[Check]:
        yield self.weight_power >= 0, f"advantage.weight_power must not be negative; got {self.weight_power}"
        yield (
            self.max_weight >= 1,
            f"advantage.max_weight must be at least 1 (inf sets no limit); got {self.max_weight}",
        )
        yield (
            self.weight_power <= 0 or self.max_weight < math.inf or not self.pass_rate.may_be_zero,
            f"advantage.weight_power = {self.weight_power} takes a power of {type(self.pass_rate).__name__}, which is "
            "0 in some pools with a positive, so the weight would have no bound. Set advantage.max_weight (the pool's "
            "mean gives at most sampler.n_max to that power), or use ada_lightning.methods.pass_rates.PoolMeanRate",
        )

    def expected(self, group: ResponseGroup) -> Values:
        """Estimate of the pass rate."""
        return np.asarray(self.pass_rate(group))

    def weight(self, group: ResponseGroup) -> float | Values:
        """``min(p^-power, max_weight)``.

        Raises:
            ValueError: there is a power to take of a rate that negative rewards have made negative, or 0 although
                rewards differ.
        """
        if self.weight_power <= 0:
            return 1.0
        rate = self.expected(group)
        has_no_power = (rate < 0) | ((rate <= 0) & (sum(_drawn(group)) <= 0))
        if np.any(has_no_power & (kept_rewards(group) != rate)):
            raise ValueError(
                f"advantage.weight_power = {self.weight_power} takes a power of a pool's pass rate, which is "
                f"{rate.min():g} in a pool whose rewards differ. Use advantage.weight_power=0 with negative rewards"
            )
        return np.minimum(np.maximum(rate, _SMALLEST_RATE) ** -self.weight_power, self.max_weight)

    def scale(self, group: ResponseGroup) -> float:
        """The pool's standard deviation, if asked."""
        return unbiased_std(_drawn(group)) + _GROUP_EPSILON if self.normalize_std else 1.0


preset(
    "advantage",
    "paper_v3",
    "official",
    text="The rule that the text of arXiv:2510.04996v3 proposes for Seq: reward minus pool mean, times 1/p. With "
    "balanced groups it counts difficulty twice (docs/estimators.md). No line of the official code does this.",
    weight_power=1.0,
)


@option("advantage", "weighted_leave_one_out", baseline=use(LeaveOneOutRate))
@dataclass(kw_only=True, eq=False)
class WeightedLeaveOneOutAdvantage(BaselineAdvantage):
    """The gradient of the mean reward, for rewards that are not binary: reward minus a baseline, weighted by class.

    ``(N_s / m_s) / N * (r - baseline)``: the sum over a prompt's kept responses is the pool's mean over all N.
    ``N_s / m_s`` (:attr:`~ada_lightning.core.records.KeptResponse.selection_weight`) undoes the selection. Goes with
    the ``constant`` loss reduction, which divides by nothing random.

    Exact for a fixed number of responses: the expected sum of ``A score`` is then the gradient of the mean reward, for
    any selection here. With rewards of 0 and 1 it is the exact linear estimator, ``c = P Q / (N (N - 1))``.

    A bias of stopping remains where the rewards decide when sampling ends. N and the baseline are then taken at a
    moment that the rewards chose, and prompts whose rewards rarely differ weigh too much. Take rewards of 0 and 1, and
    blocks of 4 until both occur, at most 32 responses: the update is 2.02, 1.33, 1.10 times the gradient at pass rates
    of 0.05, 0.2, 0.5. Taking the first round's mean as the baseline leaves N random, and puts each first-round response
    into its own baseline: 1.73, 1.04, 0.82 times. It is ``1 - 1/N`` times where the first round is all there is. There
    is no exact estimator for such rules yet. Taking the first generated of a stratum, within which the sampler treats
    responses differently, is a further bias: later ones are those that ended sampling. ``selection.random_order``
    avoids it.

    Source:
        Leave-one-out: Kool et al. 2019, as in RLOO, arXiv:2402.14740; the weights are those of stratified sampling.
    """

    traits = frozenset({Trait.COMPARES_DRAWN})

    baseline: PassRate = _LEAVE_ONE_OUT
    """What a reward is compared with: ``LeaveOneOutRate`` (lowest variance) or ``FirstRoundRate``."""

    def expected(self, group: ResponseGroup) -> float | Values:
        """Mean of the others, or of the first round."""
        return self.baseline(group)

    def weight(self, group: ResponseGroup) -> Values:
        """``(N_s / m_s) / N`` of each kept response's class. Shape ``(G,)``."""
        return np.array([kept.selection_weight for kept in group.kept]) / group.pool.num_sampled


@option("advantage", "batch_whitened", advantage=use(GroupNormalizedAdvantage, normalize_std=False))
@dataclass(kw_only=True, eq=False)
class BatchWhitenedAdvantage(Advantage):
    """Any group's rule, centred and scaled over all kept responses of the rollout (``scale_rewards=batch`` in TRL).

    ``(A - mean of A) / (standard deviation of A + 1e-8)``. Claim: dividing by the standard deviation of a group of n is
    biased, since reward and deviation depend on each other, and blows up nearly solved prompts; the deviation of the
    whole rollout is nearly a constant. Assumes many prompts per step. Degenerate case: a step where all advantages are
    equal has none.

    A group without signal keeps advantages of 0 where the mean is 0, as for rules that centre each group. By tokens the
    mean is not 0, and then such groups train against it, as in the published code. Ragged groups count by their
    responses: a prompt with more of them moves mean and deviation more.

    Source:
        REINFORCE++, arXiv:2501.03262, section 3. TRL divides by the spread of rewards, this by that of advantages.
    """

    advantage: Advantage = _WITHOUT_STD
    """The rule whose advantages are whitened. The rollout's deviation takes the place of the group's."""
    by_tokens: bool = False
    """Count a response as often as it has tokens, as verl and OpenRLHF do; False counts each once."""

    def __post_init__(self) -> None:
        self.needs_reference = self.advantage.needs_reference
        self.traits = self.advantage.traits | ({Trait.TRAINS_EQUAL_REWARDS} if self.by_tokens else frozenset())

    def connect(self, log_ratios: LogRatios, states: States) -> None:
        """Tell the rule that is whitened."""
        self.advantage.connect(log_ratios, states)

    def assign(self, groups: Sequence[ResponseGroup]) -> list[list[float]]:
        """Return the advantages, group by group."""
        rows = self.advantage.assign(groups)
        return whitened_groups(groups, rows, by_tokens=self.by_tokens, epsilon=_WHITENING_EPSILON)

    def caveat(self) -> str:
        """What whitening does to the update of the group's rule."""
        over = "tokens" if self.by_tokens else "kept responses"
        return (
            f"that is before whitening, which centres and scales advantages over all {over} of a step; with many "
            "prompts this is nearly one factor for all of them, and steps with little spread count as much as others"
        )


BATCH_WHITENING = known(
    Recipe(
        name="batch_whitening",
        card=Card(
            table="update",
            changes="scales the advantages of any group rule by the whole step",
            needs="many prompts per step",
            cost="packs once more",
            fidelity="after",
            departs="It divides by the spread of advantages. TRL divides by that of rewards.",
        ),
        checked=Comparison(
            rule="the z-score",
            against="by hand",
            test=(
                "unit/methods/advantages/test_of_whole_rollout.py::test_whitening_is_the_z_score_over_the_whole_rollout"
            ),
        ),
        text="""
            Scales advantages by the standard deviation of the whole rollout instead of each group's. It is GRPO with
            scale_rewards=batch, as TRL has it.
        """,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=BatchWhitenedAdvantage,
    )
)


def _drawn(group: ResponseGroup) -> list[float]:
    """Rewards of the whole pool."""
    return [response.reward for response in group.pool.responses]
