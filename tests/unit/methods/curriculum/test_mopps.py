"""MoPPS is Thompson sampling on an exponential average, with the target in place of a usefulness: nothing else."""

from __future__ import annotations

import random

import pytest

from ada_lightning.core.records import Belief, Prompt
from ada_lightning.methods.curriculum import Learnability, PosteriorSampling
from ada_lightning.methods.estimators import EmaEstimator
from ada_lightning.methods.published.mopps import NearTarget
from tests.builders import make_pool

DECAY = 0.5


def mopps_beliefs(visits):
    """The authors' update, written out: a <- d a + (1 - d) a0 + s, b <- d b + (1 - d) b0 + n - s."""
    alpha = beta = 1.0
    for positives, size in visits:
        alpha = DECAY * alpha + (1 - DECAY) * 1.0 + positives
        beta = DECAY * beta + (1 - DECAY) * 1.0 + size - positives
    return alpha, beta


def test_the_exponential_average_is_their_update():
    visits = [(3, 8), (0, 8), (8, 8), (5, 8)]
    estimator = EmaEstimator(alpha=1.0, beta=1.0, decay=DECAY)
    for seen in range(len(visits) + 1):
        (belief,) = estimator.predict([Prompt("p7", ())], represent=lambda asked: None)
        assert (belief.alpha, belief.beta) == pytest.approx(mopps_beliefs(visits[:seen]))
        if seen < len(visits):
            positives, size = visits[seen]
            estimator.update([make_pool([1.0] * positives + [0.0] * (size - positives))])


@pytest.mark.parametrize("target", [0.5, 0.3])
def test_a_step_takes_the_draws_nearest_to_the_target(target):
    """The curriculum's own generator, replayed: one draw per candidate, the smallest squared distances win."""
    beliefs = [Belief(1.0 + i, 9.0 - i) for i in range(8)]
    curriculum = PosteriorSampling(usefulness=NearTarget(target=target))
    for seed in range(20):
        generator = random.Random(seed)
        draws = [generator.betavariate(belief.alpha, belief.beta) for belief in beliefs]
        expected = sorted(range(8), key=lambda i: (draws[i] - target) ** 2)
        assert curriculum.rank(beliefs, random.Random(seed)) == expected


def test_at_one_half_it_is_the_order_of_learnability():
    generator = random.Random(0)
    rates = [generator.random() for _ in range(200)]
    order = [sorted(range(200), key=lambda i: -values[i]) for values in (NearTarget()(rates), Learnability()(rates))]
    assert order[0] == order[1]


def test_the_target_is_checked():
    with pytest.raises(ValueError, match=r"usefulness.target must be in \[0, 1\]; got 1.5"):
        NearTarget(target=1.5)
