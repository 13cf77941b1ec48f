"""What every response of a batch is multiplied by: the stages of an update, one after the other, on given rewards.

Shapes: G groups; a group has n_g rows, one for each response.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ada_lightning.objective.update import (
    Baseline,
    Keep,
    Missing,
    Reduction,
    Single,
    Spread,
    Truncated,
    Update,
)

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """The responses of a prompt."""

    rewards: tuple[float, ...]
    """NaN: missing."""
    lengths: tuple[int, ...] = ()
    """Trained tokens of each; one each where left out."""
    is_truncated: tuple[bool, ...] = ()

    @property
    def token_counts(self) -> Values:
        """Shape (n_g,)."""
        return np.array(self.lengths or (1,) * len(self.rewards), dtype=np.float64)

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """Shape (n_g,)."""
        return np.array(self.is_truncated or (False,) * len(self.rewards), dtype=bool)


@dataclass(frozen=True)
class Statistics:
    """Of a whole batch."""

    mean_reward: float
    reward_variance: float
    """n in the denominator, as below."""
    rewarded_share: float
    """Of rewards that are not 0."""
    mean_difference: float = 0.0
    difference_variance: float = 1.0
    mean_advantage: float = 0.0
    """Before whitening."""
    advantage_variance: float = 1.0
    num_rows: float = math.inf
    num_tokens: float = math.inf


def advantages(update: Update, groups: Sequence[Group], batch: Statistics | None = None) -> list[Values]:
    """Return the advantage of each response, 0 for those that a filter leaves out.

    Args:
        update: what is done to them.
        groups: of one batch.
        batch: statistics of a larger batch that these groups are part of; None: they are the batch.

    Returns:
        An array for each group, of shape (n_g,).
    """
    kept = [kept_rows(update, group) for group in groups]
    rewards = [_filled(update, group)[rows] for group, rows in zip(groups, kept, strict=True)]
    lengths = [group.token_counts[rows] for group, rows in zip(groups, kept, strict=True)]
    batch = _reward_statistics(rewards, lengths) if batch is None else batch
    is_whole = batch.num_rows != math.inf
    centred = [_centred(update, row, length, batch) for row, length in zip(rewards, lengths, strict=True)]
    if is_whole:
        mean, variance = _moments(centred, [np.ones_like(row) for row in centred])
        batch = replace(batch, mean_difference=mean, difference_variance=variance)
    scaled = [_scaled(update, row, difference, batch) for row, difference in zip(rewards, centred, strict=True)]
    if update.whitening:
        if is_whole:
            weights = [np.ones_like(row) for row in lengths] if update.whitening.counts_rows else lengths
            mean, variance = _moments(scaled, weights)
            batch = replace(batch, mean_advantage=mean, advantage_variance=variance)
        scaled = [_whitened(update, row, batch) for row in scaled]
    return [
        _placed(group, rows, _bounded(update, row) * update.gain)
        for group, rows, row in zip(groups, kept, scaled, strict=True)
    ]


def token_factors(update: Update, groups: Sequence[Group], *, width: int = 1) -> list[Values]:
    """Return what multiplies ``grad log p`` of each trained token of a response, on policy.

    Args:
        update: what is done to them.
        groups: all over which the reduction counts.
        width: the constant length of ``Reduction.CONSTANT``, in tokens.

    Returns:
        An array for each group, of shape (n_g,): one number holds for all tokens of a response.
    """
    adv = advantages(update, groups)
    masks = [_trains(update, group) for group in groups]
    if update.filter:  # what it leaves out is no part of the batch, so nothing counts it
        masks = [mask * kept_rows(update, group) for mask, group in zip(masks, groups, strict=True)]
    lengths = [group.token_counts for group in groups]
    counts = [
        np.ones_like(mask)
        * (mask if update.filter or not update.counts_masked else 1.0)
        * (1.0 if update.counts_equal or row.any() else 0.0)
        for mask, row in zip(masks, adv, strict=True)
    ]
    counted = [length * count for length, count in zip(lengths, counts, strict=True)]
    num_rows = max(float(sum(count.sum() for count in counts)), 1.0)
    num_tokens = max(float(sum(count.sum() for count in counted)), 1.0)
    return [
        row * mask * _factor(update.reduction, length, count, (num_rows, num_tokens, float(len(groups))), width)
        for row, mask, length, count in zip(adv, masks, lengths, counted, strict=True)
    ]


def large_batch(update: Update, pass_rate: float = 0.5) -> Statistics:
    """Return the statistics of a batch so large that no group of it matters, all prompts having one pass rate."""
    groups = [group_of(end.right, end.drawn) for end in update.every_end]
    plain = [np.array(group.rewards)[kept_rows(update, group)] for group in groups]
    chances = [end.chance(pass_rate) for end in update.every_end]
    rows_drawn = math.fsum(chance * len(row) for chance, row in zip(chances, plain, strict=True))

    def moments(rows: list[Values]) -> tuple[float, float]:
        if not rows_drawn:
            return 0.0, 0.0
        sums = [(chance * row.sum(), chance * (row**2).sum()) for chance, row in zip(chances, rows, strict=True)]
        mean, square = (math.fsum(each) / rows_drawn for each in zip(*sums, strict=True))
        return mean, max(square - mean**2, 0.0)

    batch = Statistics(*moments(plain), moments([(row != 0).astype(np.float64) for row in plain])[0])
    centred = [_centred(update, row, np.ones_like(row), batch) for row in plain]
    mean, square = moments(centred)
    batch = replace(batch, mean_difference=mean, difference_variance=square)
    scaled = [_scaled(update, row, difference, batch) for row, difference in zip(plain, centred, strict=True)]
    mean, square = moments(scaled)
    return replace(batch, mean_advantage=mean, advantage_variance=square)


def group_of(num_right: int, size: int) -> Group:
    """Return a group with so many rewards of 1 before zeros.

    Example:
        >>> group_of(1, 3).rewards
        (1.0, 0.0, 0.0)
    """
    return Group((1.0,) * num_right + (0.0,) * (size - num_right))


def _filled(update: Update, group: Group) -> Values:
    rewards = np.array(group.rewards, dtype=np.float64)
    return np.nan_to_num(rewards, nan=0.0) if update.missing is Missing.ZERO else rewards


def kept_rows(update: Update, group: Group) -> NDArray[np.bool_]:
    """Which rows a filter and missing rewards leave. Shape (n_g,)."""
    rewards = _filled(update, group)
    present = np.ones(len(rewards), dtype=bool)
    if update.missing in (Missing.LEFT_OUT, Missing.DROPPED):
        present = ~np.isnan(rewards)
    if update.filter is None or not present.any():
        return present
    found = rewards[present]
    if update.filter.keep is Keep.ROW_SPREAD:
        present[present] = [float(np.std(np.delete(found, row))) > 0 for row in range(len(found))]
        return present
    if update.filter.keep is Keep.MEAN_INSIDE:
        is_kept = update.filter.low < float(found.mean()) < update.filter.high
    else:
        is_kept = len(found) == 1 or float(np.ptp(found)) != 0  # NaN differs, too
    return present & is_kept


def _trains(update: Update, group: Group) -> Values:
    """1 where the tokens of a response train, 0 where they are masked."""
    if update.truncated is Truncated.MASKED:
        return (~group.truncated).astype(np.float64)
    return np.ones(len(group.rewards))


def _moments(rows: Sequence[Values], weights: Sequence[Values]) -> tuple[float, float]:
    """Mean and variance over all rows, by weight."""
    values, weight = np.concatenate(rows), np.concatenate(weights)
    if not weight.sum():
        return 0.0, 0.0
    mean = float((values * weight).sum() / weight.sum())
    return mean, float((weight * (values - mean) ** 2).sum() / weight.sum())


def _reward_statistics(rewards: Sequence[Values], lengths: Sequence[Values]) -> Statistics:
    values = np.concatenate(rewards) if rewards else np.zeros(0)
    if not len(values):
        return Statistics(0.0, 0.0, 0.0, num_rows=0.0, num_tokens=0.0)
    return Statistics(
        float(values.mean()),
        float(values.var()),
        float((values != 0).mean()),
        num_rows=float(len(values)),
        num_tokens=float(np.concatenate(lengths).sum()),
    )


def _centred(update: Update, rewards: Values, lengths: Values, batch: Statistics) -> Values:
    """Rewards minus the baseline."""
    n = len(rewards)
    if n == 0 or update.baseline in (Baseline.NONE, Baseline.RUNNING_MEAN):
        return rewards.copy()  # a constant that this batch does not set moves no expected update
    if update.baseline is Baseline.BATCH_MEAN:
        return rewards - batch.mean_reward
    if n == 1:
        return rewards.copy() if update.single is Single.RAW else np.zeros(1)
    if update.baseline is Baseline.OTHERS_MEAN:
        return (rewards - rewards.mean()) * n / (n - 1)
    if update.baseline is Baseline.LENGTH_MEAN:
        return np.asarray(rewards - (rewards * lengths).sum() / lengths.sum())
    if update.baseline is Baseline.RUNNER_UP:
        best = int(np.argmax(rewards))
        found = np.zeros(n)
        found[best] = rewards[best] - np.delete(rewards, best).max()
        return found
    return np.asarray(rewards - rewards.mean())


def _scaled(update: Update, rewards: Values, differences: Values, batch: Statistics) -> Values:
    """Differences over what the divisor names, inside of the bounds."""
    found = _divided(update, rewards, differences, batch)
    return found if update.cut is None else np.clip(found, *update.cut)


def _divided(update: Update, rewards: Values, differences: Values, batch: Statistics) -> Values:
    """Differences over what the divisor names."""
    divisor = update.divisor
    n = len(rewards)
    if n == 0 or divisor.spread is Spread.NONE:
        return differences
    if divisor.spread is Spread.OTHERS:
        return _divided_by_others(update, rewards, differences)
    if divisor.spread is Spread.GROUP_MEAN:
        mean = float(rewards.mean())
        return differences / (mean + divisor.epsilon) if mean > 0 and n > 1 else differences * (n == 1)
    if divisor.spread is Spread.GROUP:
        spread = float(rewards.std(ddof=divisor.ddof)) if n > 1 else 1.0
    elif divisor.spread is Spread.REWARDED_SHARE:
        spread = batch.rewarded_share
    else:
        is_rewards = divisor.spread is Spread.BATCH_REWARDS
        variance = batch.reward_variance if is_rewards else batch.difference_variance
        spread = math.sqrt(variance * _corrected(batch.num_rows, divisor.ddof))
    below = spread + divisor.epsilon
    return np.zeros(n) if below == 0 else differences / below  # NaN stays NaN


def _divided_by_others(update: Update, rewards: Values, differences: Values) -> Values:
    """Each over the standard deviation of the other rows; undivided where that is 0."""
    found = differences.copy()
    for row in range(len(rewards)):
        others = np.delete(rewards, row)
        spread = float(others.std(ddof=update.divisor.ddof)) if len(others) > update.divisor.ddof else 0.0
        if spread > 0:
            found[row] /= spread + update.divisor.epsilon
    return found


def _corrected(count: float, ddof: int) -> float:
    """Factor from a variance with n below to one with n - ddof."""
    if count == math.inf:
        return 1.0
    return count / (count - ddof) if count > ddof else 0.0


def _whitened(update: Update, values: Values, batch: Statistics) -> Values:
    whitening = update.whitening
    assert whitening is not None
    if not whitening.divides:
        return values - batch.mean_advantage
    count = batch.num_rows if whitening.counts_rows else batch.num_tokens
    variance = batch.advantage_variance * _corrected(count, whitening.ddof)
    if whitening.is_epsilon_inside:
        spread = math.sqrt(variance + whitening.epsilon)
    else:
        spread = math.sqrt(variance) + whitening.epsilon
    return (values - batch.mean_advantage) / (spread or 1.0)


def _bounded(update: Update, values: Values) -> Values:
    return np.clip(values, *update.bounds) if update.bounds else values


def _placed(group: Group, rows: NDArray[np.bool_], values: Values) -> Values:
    """Put advantages where their rows stand; the others have 0."""
    found = np.zeros(len(group.rewards))
    found[rows] = values
    return found


def _factor(
    reduction: Reduction, lengths: Values, counted: Values, totals: tuple[float, float, float], width: int
) -> Values | float:
    """What a reduction makes of one token, for each row of a group."""
    num_rows, num_tokens, num_groups = totals
    if reduction is Reduction.RESPONSE_MEAN:
        return 1.0 / (num_rows * np.maximum(lengths, 1.0))
    if reduction is Reduction.TOKEN_MEAN:
        return 1.0 / num_tokens
    if reduction is Reduction.CONSTANT:
        return 1.0 / (num_rows * width)
    if reduction is Reduction.RESPONSE_SUM:
        return 1.0 / num_rows
    if reduction is Reduction.PROMPT_MEAN:
        return 1.0 / (num_groups * max(float(counted.sum()), 1.0))
    return 1.0
