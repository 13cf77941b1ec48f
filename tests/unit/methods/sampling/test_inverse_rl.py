"""A reward learned from demonstrations is the one that they were made with, in one loop of slow and quick steps."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from ada_lightning.core.records import Prompt, Response, ResponsePool
from ada_lightning.methods.published.inverse_rl import CharacterShares, InverseRlSampler

TEXTS = ("abc", "12", "a b 1", "!?", "hello 7", "42!", "x", "9 9 9 9")
TRUE = np.array([1.0, -2.0, 0.5, 1.5, -1.0])
PRICE = 0.5
"""Of a nat away from the uniform prior, in rewards."""
RESPONSES = [Response("p", 0, 0, (1,), (0.0,), text, False, 0.0, False, 0) for text in TEXTS]


class Remembered(CharacterShares):
    """The same features, worked out once."""

    __call__ = lru_cache(CharacterShares.__call__)


def make_sampler(**options):
    return InverseRlSampler(**{"group_size": 4, "features": Remembered(), "learning_rate": 0.5} | options)


def pool_of(drawn, demonstration="12"):
    pool = ResponsePool(Prompt("p", (), reference={"answer": demonstration}), 0)
    pool.responses = [RESPONSES[index] for index in drawn]
    return pool


def best_for(rewards):
    weights = np.exp((rewards - rewards.max()) / PRICE)
    return weights / weights.sum()


def test_the_recovered_reward_is_the_true_one_and_the_policy_that_of_the_expert():
    """The expert is the best policy for the true reward; 16 of its 2,000 demonstrations and 16 groups of 8 make a step.

    After each step of the reward the policy goes a third of the way to the best one for it. Rewards are compared up to
    a constant, which no demonstration tells.
    """
    generator, learner, logits = np.random.default_rng(0), make_sampler(learning_rate=0.1), np.zeros(len(TEXTS))
    true = np.array([Remembered()(text) for text in TEXTS]) @ TRUE
    demonstrations = generator.choice(len(TEXTS), size=2000, p=best_for(true))
    found = []
    for _ in range(1500):
        policy = best_for(PRICE * logits)
        shown = generator.choice(demonstrations, size=16)
        drawn = generator.choice(len(TEXTS), size=(16, 8), p=policy)
        learner.learn([pool_of(row, TEXTS[text]) for row, text in zip(drawn, shown, strict=True)])
        rewards = np.array(learner.end(pool_of(range(len(TEXTS)))).rewards)
        logits += 0.3 * (rewards / PRICE - logits)
        found.append(rewards)
    recovered = np.mean(found[500:], axis=0)
    assert np.corrcoef(recovered, true)[0, 1] > 0.98
    assert best_for(recovered) == pytest.approx(best_for(true), abs=0.03)


def test_a_step_goes_from_what_is_drawn_to_what_was_shown_and_decays():
    learner = make_sampler(decay=0.2)
    learner.load_state_dict({"weights": {"letters": 1.0, "gone": 5.0}})
    learner.learn(
        [pool_of([0, 1]), pool_of([], "abc")]
    )  # "abc" and "12" drawn, "12" shown; the empty pool says nothing
    assert learner.weights == pytest.approx(
        {"letters": 0.9 - 0.25, "digits": 0.25, "spaces": 0.0, "others": 0.0, "length": 0.5 * (np.log(3 / 4) / 10)}
    )
    end = learner.end(pool_of([0, 1]))
    assert end.rewards == pytest.approx(
        [0.65 + np.log(4) / 5 * learner.weights["length"], 0.25 + np.log(3) / 5 * learner.weights["length"]]
    )
    restored = make_sampler()
    restored.load_state_dict(learner.state_dict())
    assert restored.weights == learner.weights
    before = learner.frozen()
    learner.learn([pool_of([0])])
    assert before.weights == restored.weights != learner.weights


def test_an_empty_text_has_no_shares_and_prompts_without_a_demonstration_are_told():
    assert CharacterShares()("").tolist() == [0.0] * 5
    make_sampler().check_prompts([Prompt("a", (), reference={"answer": 3})])
    with pytest.raises(ValueError, match=r"1 of 2 prompts, such as b, have no such entry"):
        make_sampler().check_prompts([Prompt("a", (), reference={"answer": 3}), Prompt("b", ())])
    with pytest.raises(ValueError, match=r"(?s)learning_rate must be positive.*decay must be 0 or positive"):
        make_sampler(learning_rate=0.0, decay=-1.0)
