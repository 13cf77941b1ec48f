from __future__ import annotations

import io
import math

import numpy as np
import pytest
import torch

from ada_lightning.estimators import PolicyEmbedding, SimilarPrompts, WordEmbedding
from ada_lightning.protocols import PassRateEstimator, RememberingEstimator
from ada_lightning.types import Prompt
from tests.builders import make_pool, make_prompt


def never(prompts):
    raise AssertionError("no policy is needed")


def kind_of(key):
    return key // 100


class Kinds:
    """Prompts 100 to 199 lie together, and so on; a prompt that has its number in no hundred lies by itself."""

    def __call__(self, prompts, represent):
        rows = torch.zeros(len(prompts), 8)
        for row, prompt in zip(rows, prompts, strict=True):
            row[kind_of(int(prompt.prompt_id.removeprefix("p")))] = 1.0
        return rows


def estimator(**settings):
    return SimilarPrompts(**({"embedding": Kinds()} | settings))


def visit(known, outcomes):
    known.update(
        [make_pool([1.0] * right + [0.0] * (size - right), key=key) for key, (right, size) in outcomes.items()]
    )


def means(known, *keys):
    return [belief.mean for belief in known.predict([make_prompt(key) for key in keys], never)]


def test_it_can_be_asked_about_any_prompt_without_a_policy():
    known = estimator()
    assert isinstance(known, PassRateEstimator)
    assert isinstance(known, RememberingEstimator)
    assert means(known, 100, 200) == pytest.approx([0.5, 0.5])
    assert known.predict([], never) == []
    history = known.recall([make_prompt(100)])[0]
    assert history.belief == known.predict([make_prompt(100)], never)[0]
    assert not history.is_seen


def test_before_anything_was_seen_a_pass_rate_is_anything():
    """A logit of variance 4 + 1 + 4 + 4: nearly as often above 0.95 or below 0.05 as between."""
    (belief,) = estimator().predict([make_prompt(100)], never)
    assert belief.alpha + belief.beta < 1


def test_prompts_never_seen_are_told_apart_by_those_that_were():
    known = estimator()
    visit(known, {100: (3, 4), 101: (4, 4), 102: (2, 4), 200: (0, 4), 201: (0, 4), 202: (1, 4)})
    easy, hard = means(known, 150, 250)
    assert easy > 0.6
    assert hard < 0.3
    blind = estimator(similar_scale=0.0)
    visit(blind, {100: (3, 4), 101: (4, 4), 102: (2, 4), 200: (0, 4), 201: (0, 4), 202: (1, 4)})
    assert means(blind, 150) == pytest.approx(means(blind, 250))


def test_a_prompt_has_something_for_itself():
    outcomes = {100: (4, 4), 101: (4, 4), 102: (4, 4), 103: (0, 4)}
    known, same = estimator(), estimator(own_scale=0.0)
    visit(known, outcomes)
    visit(same, outcomes)
    seen, unseen = means(known, 103, 150)
    assert seen < 0.4 < unseen
    assert means(same, 103) == pytest.approx(means(same, 150))


def test_what_was_seen_of_others_lately_moves_what_is_remembered():
    """Prompt 100 was wrong; since then the policy has got right what it got wrong then, among others."""

    def remembered(**settings):
        known = estimator(similar_scale=0.0, **settings)
        visit(known, dict.fromkeys(range(100, 110), (0, 16)))
        before = means(known, 100)[0]
        for start in range(200, 260, 10):
            visit(known, dict.fromkeys(range(start, start + 10), (14, 16)))
        return before, means(known, 100)[0], means(known, 250)[0]

    before, after, lately = remembered(drift_visits=64.0)
    assert before < 0.05
    assert 0.25 < after < lately - 0.25  # between what it was and what others are
    _, still, _ = remembered(drift_scale=0.0)
    assert still < 0.1


def test_the_posterior_of_one_prompt_is_that_of_a_grid():
    """All scales in one: the exact posterior of a logit of variance 13, by brute force; Laplace's is near it."""
    known = estimator()
    visit(known, {100: (6, 16)})
    (belief,) = known.predict([make_prompt(100)], never)
    logits = np.linspace(-15, 15, 20001)
    variance = 2.0**2 + 1.0 + 2.0**2  # one prompt lies in its own middle: nothing is shared
    weight = np.exp(-(logits**2) / (2 * variance) + 6 * logits - 16 * np.logaddexp(0, logits))
    rate = 1 / (1 + np.exp(-logits))
    mean = (weight * rate).sum() / weight.sum()
    spread = (weight * (rate - mean) ** 2).sum() / weight.sum()
    assert belief.mean == pytest.approx(mean, abs=0.01)
    strength = belief.alpha + belief.beta
    # the drift has moved on by one visit, which costs little
    assert strength == pytest.approx(mean * (1 - mean) / spread - 1, rel=0.1)


def test_beliefs_are_calibrated_in_a_world_made_by_its_own_assumptions():
    """Prompts of kinds, an effect of their own, and a policy that learns: what it says happens as often as it says."""
    rng = np.random.default_rng(5)
    kinds, own = rng.normal(0, 1.5, 8), rng.normal(0, 1.5, 800)
    known = estimator()
    said, drawn = [], []
    for step in range(40):
        keys = rng.choice(800, 16, replace=False)
        rates = 1 / (1 + np.exp(-(-1.5 + 0.06 * step + kinds[keys // 100] + own[keys])))
        right = rng.binomial(4, rates)
        if step >= 5:
            said += means(known, *keys.tolist())
            drawn += (right / 4).tolist()
        visit(known, {int(key): (int(count), 4) for key, count in zip(keys, right, strict=True)})
    order = np.argsort(said)
    for part in np.array_split(order, 4):  # 140 visits each: a standard deviation of 0.03 at most
        assert np.mean(np.array(said)[part]) == pytest.approx(np.mean(np.array(drawn)[part]), abs=0.08)
    assert np.corrcoef(said, drawn)[0, 1] > 0.5


def test_only_the_latest_visits_are_remembered():
    known, fresh = estimator(num_visits=4), estimator(num_visits=4)
    visit(known, {100: (4, 4), 101: (4, 4)})
    for other in (known, fresh):
        visit(other, {200: (0, 4), 201: (1, 4), 202: (0, 4), 203: (0, 4)})
    assert means(known, 100, 200, 203) == pytest.approx(means(fresh, 100, 200, 203))
    assert [history.is_seen for history in known.recall([make_prompt(100), make_prompt(200)])] == [False, True]


def test_a_prompt_with_two_pools_counts_once_with_both_and_without_evidence_not_at_all():
    twice, once = estimator(), estimator()
    twice.update([make_pool([0.0, 1.0], key=100), make_pool([1.0], key=100, slot=1), make_pool([], key=300)])
    visit(once, {100: (2, 3)})
    assert means(twice, 100, 200, 300) == means(once, 100, 200, 300)
    assert twice.history_counts() == {"p100": (2.0, 3.0)}
    belief = twice.predict([make_prompt(100)], never)[0]
    assert (belief.num_seen, belief.num_seen_positive) == (3.0, 2.0)


@pytest.mark.parametrize("num_steps", [0, 1, 3])
def test_a_resumed_run_believes_the_same_bit_by_bit(num_steps):
    first, second = estimator(num_visits=8), estimator(num_visits=8)
    for step in range(num_steps):
        visit(first, {100 * kind + step: (kind % 4, 4) for kind in range(4)})
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    for known in (first, second):
        visit(known, {107: (1, 4), 200: (2, 4)})
    keys = (100, 101, 107, 200, 300)
    assert means(first, *keys) == means(second, *keys)


def test_wrong_words_are_an_error_of_the_embedding():
    known = SimilarPrompts(embedding=WordEmbedding())
    with pytest.raises(ValueError, match="no words to tell them apart"):
        known.check_prompts([Prompt("a", ())])


def test_words_of_training_prompts_are_learned_from_them():
    texts = {f"p{index}": f"What is {index} {sign} 3?" for index in range(6) for sign in "+-"[index % 2]}
    prompts = [Prompt(key, ({"role": "user", "content": text},)) for key, text in texts.items()]
    known = SimilarPrompts(embedding=WordEmbedding())
    known.check_prompts(prompts)
    known.learn([(prompts[0], 4, 4), (prompts[1], 0, 4), (prompts[2], 3, 4)])
    plus, minus = (belief.mean for belief in known.predict(prompts[4:6], never))
    assert plus > 0.6 > 0.4 > minus


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_visits": 0}, "estimator.num_visits must be at least 1; got 0"),
        ({"drift_visits": 0.0}, "estimator.drift_visits must be positive and finite; got 0.0"),
        ({"base_scale": math.inf}, "estimator.base_scale must be positive and finite; got inf"),
        ({"own_scale": -1.0}, r"estimator.own_scale must be 0 \(none\) or positive, and finite; got -1.0"),
        ({"similar_scale": math.nan}, "estimator.similar_scale must be 0 .* got nan"),
        ({"drift_scale": -0.5, "num_visits": -1}, "num_visits must be at least 1; got -1; .*drift_scale must be 0"),
        ({"embedding": PolicyEmbedding()}, "there is no policy to embed them; use estimator/embedding=words or sent"),
    ],
)
def test_settings_that_cannot_work_are_rejected(change, message):
    with pytest.raises(ValueError, match=message):
        estimator(**change)


def test_embeddings_that_cannot_be_used_are_errors():
    def known(embed):
        return estimator(embedding=embed)

    with pytest.raises(ValueError, match="asked about candidates where there is no policy to embed them"):
        visit(known(lambda prompts, represent: represent(prompts)), {100: (1, 4)})
    with pytest.raises(ValueError, match=r"shape \(3,\) for 1 prompts"):
        visit(known(lambda prompts, represent: torch.zeros(3)), {100: (1, 4)})
    with pytest.raises(ValueError, match="not finite"):
        visit(known(lambda prompts, represent: torch.full((1, 2), torch.nan)), {100: (1, 4)})
    sizes = iter((2, 3))
    grows = known(lambda prompts, represent: torch.zeros(len(prompts), next(sizes)))
    visit(grows, {100: (1, 4)})
    with pytest.raises(ValueError, match=r"embeddings of 3 numbers, those of earlier prompts have 2: is this the"):
        means(grows, 100)
