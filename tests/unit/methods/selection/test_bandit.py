from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
import torch

from ada_lightning.methods.published.rollout_bandits import (
    CONTEXTS,
    ENTROPY,
    REWARD,
    BanditSelection,
    response_contexts,
)
from tests.builders import make_pool

LENGTHS = [1, 9, 1, 9, 1, 9, 1, 9]


def pools(step, seed=0):
    generator = np.random.default_rng(seed + step)
    return [make_pool(list((generator.random(8) < 0.5).astype(float)), slot=s, num_tokens=LENGTHS) for s in range(4)]


def indices(kept):
    return [k.response.sample_index for k in kept]


def test_contexts_are_bounded_and_mean_what_their_names_say():
    pool = make_pool([1, 0, 0, 0], num_tokens=[2, 2, 2, 6])
    pool.responses[1] = replace(pool.responses[1], is_truncated=True, sampling_logprobs=(-2.0, -2.0))
    contexts = response_contexts(pool)
    assert contexts.shape == (4, len(CONTEXTS))
    assert np.abs(contexts).max() <= 1.0
    column = {name: contexts[:, i].tolist() for i, name in enumerate(CONTEXTS)}
    assert column["advantage"] == pytest.approx([0.5, -1 / 6, -1 / 6, -1 / 6], abs=1e-4)  # 1.5 and -0.5 deviations
    assert column["share of positives in the pool"] == [0.25] * 4
    assert column["signal of the pool"] == [0.75] * 4
    assert column["share of its class in the pool"] == [0.25, 0.75, 0.75, 0.75]
    assert column["surprise to the belief"] == [0.5, -0.5, -0.5, -0.5]
    assert column["length"] == pytest.approx([-1 / 3] * 3 + [1.0])
    assert column["truncated"] == [0, 1, 0, 0]
    assert column["surprisal"][1] == 0.5
    assert response_contexts(make_pool([])).shape == (0, len(CONTEXTS))


def pay(bandit, reward, entropy=1.0):
    bandit.learn({REWARD: reward, ENTROPY: entropy})


class World:
    """Training on long responses helps: the reward rises by what was kept of them."""

    def __init__(self):
        self.step, self.reward, self.kept = 0, 0.0, []

    def run(self, bandit, num_steps):
        for _ in range(num_steps):
            chosen = bandit.select_all(pools(self.step))
            pay(bandit, self.reward)
            self.kept.append([indices(group) for group in chosen])
            self.share = np.mean([len(k.response.response_ids) == 9 for group in chosen for k in group])
            self.reward += self.share - 0.5
            self.step += 1


def test_it_learns_which_kind_of_response_helps():
    bandit = BanditSelection(group_size=4, exploration=0.3)
    world = World()
    world.run(bandit, 40)
    assert bandit.worth["length"] > 0.05
    bandit.exploration = 0.0
    world.run(bandit, 1)
    assert world.share == 1.0  # four long ones of eight


@pytest.mark.parametrize(
    ("entropies", "payment"), [((1.0, 0.5), 0.1 + 0.2 * 0.5), ((0.05, 0.01), 0.1), ((1.0, 1.5), 0.1 - 0.2 * 0.5)]
)
def test_the_payment_is_reward_gained_and_entropy_lost_above_its_floor(entropies, payment):
    """One step of ridge regression on one pool, worked out: (x x' / n + I) w = r mean(x)."""
    bandit = BanditSelection(group_size=8, entropy_weight=0.2, min_entropy=0.1)
    pool = make_pool([1, 0, 0, 1, 0, 0, 0, 0])
    bandit.select_all([pool])
    pay(bandit, 0.3, entropies[0])
    pay(bandit, 0.4, entropies[1])
    x = response_contexts(pool)
    expected = np.linalg.solve(x.T @ x / 8 + np.eye(len(CONTEXTS)), payment * x.mean(0))
    assert list(bandit.worth.values()) == pytest.approx(expected.tolist())


def test_a_resumed_run_chooses_as_one_that_never_stopped():
    whole, before, after = (BanditSelection(group_size=4, exploration=0.3) for _ in range(3))
    never_stopped, stopped = World(), World()
    never_stopped.run(whole, 12)
    stopped.run(before, 6)
    file = io.BytesIO()
    torch.save(before.state_dict(), file)
    after.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    stopped.run(after, 6)
    assert stopped.kept == never_stopped.kept
    assert after.worth == whole.worth


@pytest.mark.parametrize(
    ("rewards", "learned"),
    [
        ([0.5] * 5, pools),  # nothing gained
        ([0.0, 1.0], lambda step: [make_pool([1.0] * 8)]),  # only pools with a signal train, so only they are paid
        ([0.0, None, 1.0], pools),  # a step without figures pays nothing
    ],
)
def test_without_payment_nothing_is_learned(rewards, learned):
    bandit = BanditSelection(group_size=4)
    for step, reward in enumerate(rewards):
        bandit.select_all(learned(step))
        bandit.learn({} if reward is None else {REWARD: reward, ENTROPY: 1.0})
    assert all(abs(worth) < 1e-12 for worth in bandit.worth.values())
