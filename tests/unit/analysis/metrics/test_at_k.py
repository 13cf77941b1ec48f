"""Figures of subsets of a prompt's responses, against every subset."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from statistics import mean

import numpy as np
import pytest
import torch

from ada_lightning.analysis.metrics.equal_groups import AllCorrectGroups, AllWrongGroups
from ada_lightning.analysis.metrics.maj_at_k import MajAtK
from ada_lightning.analysis.metrics.majority import majority_at_k
from ada_lightning.analysis.metrics.pass_at_k import PassAtK
from ada_lightning.analysis.metrics.response_length import ResponseLength
from ada_lightning.analysis.metrics.subsets import chance_all_in_class, pass_at_k
from ada_lightning.core.records import Prompt, Response, ResponseGroup, ResponsePool

EXACT = {"rel": 1e-12, "abs": 1e-14}  # float64 sums of at most a few hundred positive terms


def group_of(verdicts, answers=None, *, tokens=2, truncated=(), key="a", task=""):
    pool = ResponsePool(Prompt(key, (), task=task), slot=0)
    for index, verdict in enumerate(verdicts):
        pool.add(
            Response(
                prompt_id=key, sample_index=index, round_index=0, response_ids=(1,) * tokens,
                sampling_logprobs=(-1.0,) * tokens, text="", is_truncated=index in truncated, reward=float(verdict),
                is_positive=bool(verdict), policy_version=0, answer=answers[index] if answers else None,
            )
        )  # fmt: skip
    return ResponseGroup(pool, ())


def over_subsets(size, worth):
    return [mean(worth(chosen) for chosen in combinations(range(size), k)) for k in range(1, size + 1)]


@pytest.mark.parametrize("size", [1, 2, 5, 7])
def test_pass_at_k_and_equal_groups_are_means_over_all_subsets(size):
    for positives in range(size + 1):
        verdicts = [True] * positives + [False] * (size - positives)
        passed = over_subsets(size, lambda chosen, v=verdicts: any(v[i] for i in chosen))
        all_right = over_subsets(size, lambda chosen, v=verdicts: all(v[i] for i in chosen))
        assert pass_at_k(positives, size) == pytest.approx(passed, **EXACT)
        assert chance_all_in_class(positives, size) == pytest.approx(all_right, **EXACT)


def test_pass_at_k_is_sound_where_binomials_overflow():
    """C(5000, 2500) has 1,500 digits. The exact value of pass@2 is 1 - (n-c)(n-c-1) / (n(n-1))."""
    values = pass_at_k(3, 5000)
    assert values[1] == pytest.approx(1 - 4997 * 4996 / (5000 * 4999), rel=1e-9)
    assert values[-3] == 1.0  # 4,998 responses leave no room for three right ones outside
    assert np.all(np.diff(values) >= 0)


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="5 of 4 responses"):
        chance_all_in_class(5, 4)


def vote(answers, verdicts, chosen):
    """Worth of a majority vote among chosen responses, from its definition."""
    counts = Counter(answers[i] for i in chosen if answers[i] is not None)
    if not counts:
        return 0.0
    tied = [answer for answer, count in counts.items() if count == max(counts.values())]
    return mean(mean(float(v) for a, v in zip(answers, verdicts, strict=True) if a == answer) for answer in tied)


@pytest.mark.parametrize(
    ("answers", "verdicts"),
    [
        ("aab", [1, 1, 0]),
        ("aabb", [1, 1, 0, 0]),  # a tie of the whole
        ("abcdef", [1, 0, 0, 0, 0, 0]),
        ("aaabbcc", [0, 0, 0, 1, 1, 0, 0]),
        ("aaab----", [1, 1, 1, 0, 0, 0, 0, 0]),  # - has no answer
        ("-----", [0, 0, 0, 0, 0]),
        ("aabbbc-d", [1, 0, 0, 0, 0, 1, 1, 0]),  # equal answers with unequal verdicts; a positive without an answer
        ("aaaa", [1, 1, 1, 1]),
    ],
)
def test_maj_at_k_is_the_mean_over_all_subsets_and_ties(answers, verdicts):
    answers = [None if answer == "-" else answer for answer in answers]
    expected = over_subsets(len(answers), lambda chosen: vote(answers, verdicts, chosen))
    assert majority_at_k(answers, [bool(v) for v in verdicts]) == pytest.approx(expected, **EXACT)


def test_maj_at_k_of_random_votes():
    generator = np.random.default_rng(0)
    for _ in range(40):
        size = int(generator.integers(1, 10))
        answers = [None if a == 0 else str(a) for a in generator.integers(0, 5, size)]
        verdicts = [bool(v) for v in generator.integers(0, 2, size)]
        expected = over_subsets(size, lambda chosen, a=answers, v=verdicts: vote(a, v, chosen))
        assert majority_at_k(answers, verdicts) == pytest.approx(expected, **EXACT)


def test_maj_at_k_of_many_responses_by_sampling():
    """64 responses: four standard errors of 4,000 seeded subsets, each worth 0, 1 or the share of a tie."""
    answers = ["a"] * 20 + ["b"] * 18 + ["c"] * 10 + [None] * 6 + [str(i) for i in range(10)]
    verdicts = [answer == "a" for answer in answers]
    exact = majority_at_k(answers, verdicts)
    generator = np.random.default_rng(1)
    for k in (3, 16, 40):
        draws = [vote(answers, verdicts, generator.permutation(64)[:k]) for _ in range(4000)]
        assert exact[k - 1] == pytest.approx(mean(draws), abs=4 * np.std(draws) / 4000**0.5)
    assert exact[0] == pytest.approx(20 / 64)
    assert exact[-1] == 1.0


def test_maj_at_k_refuses_what_it_cannot_count():
    with pytest.raises(ValueError, match="at most 1000 responses of a prompt; got 1001"):
        majority_at_k([None] * 1001, [False] * 1001)
    with pytest.raises(ValueError, match="2 answers of 1 responses"):
        majority_at_k(["1", "2"], [True])


GROUPS = [
    group_of([1, 0, 0, 1], ["4", "5", "5", "4"], truncated=(1,)),
    group_of([0, 0, 0, 0], ["7", None, "7", "8"], tokens=5),
    group_of([1, 1], ["4", "4"]),  # two of four grades failed and were left out
    group_of([]),
]


def test_a_prompt_counts_for_as_many_responses_as_it_has():
    """k = 3, 4: the first two prompts; k = 1, 2: also the third; the fourth never."""
    passed = PassAtK(max_k=4)
    passed.update(GROUPS)
    assert passed.num_prompts.tolist() == [3, 3, 2, 2]
    first, third = pass_at_k(2, 4), [1.0, 1.0, 0.0, 0.0]
    expected = [(first[k] + third[k]) / (3 if k < 2 else 2) for k in range(4)]
    assert passed.compute().tolist() == pytest.approx(expected, **EXACT)


def test_a_k_that_no_prompt_has_is_not_a_number():
    passed = PassAtK(max_k=3)
    passed.update([group_of([1, 0])])
    assert passed.compute()[:2].tolist() == [0.5, 1.0]
    assert torch.isnan(passed.compute()[2])


def test_more_responses_than_max_k_estimate_the_same_smaller_k():
    passed = PassAtK(max_k=2)
    passed.update([group_of([1, 0, 0, 0, 0])])
    assert passed.compute().tolist() == pytest.approx([1 / 5, 2 / 5])


def test_shares_of_equal_groups():
    right, wrong, passed = AllCorrectGroups(max_k=4), AllWrongGroups(max_k=4), PassAtK(max_k=4)
    for metric in (right, wrong, passed):
        metric.update(GROUPS[:2])
    assert right.compute().tolist() == pytest.approx([1 / 4, (1 / 6) / 2, 0, 0])
    assert wrong.compute().tolist() == pytest.approx([(1 / 2 + 1) / 2, (1 / 6 + 1) / 2, 1 / 2, 1 / 2])
    assert (wrong.compute() + passed.compute()).tolist() == pytest.approx([1.0] * 4)


def test_answers_are_noticed():
    majority = MajAtK(max_k=4)
    majority.update([group_of([1, 0])])
    assert not majority.has_answers
    majority.update(GROUPS[:1])
    assert majority.has_answers


def test_length_counts_responses_equally():
    length = ResponseLength()
    length.update(GROUPS)
    figures = {name: float(value) for name, value in length.compute().items()}
    assert figures == {"response_tokens": pytest.approx((4 * 2 + 4 * 5 + 2 * 2) / 10), "truncated_ratio": 0.1}


@pytest.mark.parametrize(
    "make", [lambda c=c: c(max_k=4) for c in (PassAtK, MajAtK, AllCorrectGroups, AllWrongGroups)] + [ResponseLength]
)
def test_states_of_any_split_add_up_to_the_whole(make):
    """As a sum over ranks does: every state is reduced by a sum."""
    whole, parts = make(), [make(), make()]
    whole.update(GROUPS)
    parts[0].update(GROUPS[:1])
    parts[1].update(GROUPS[1:])
    for name in whole._defaults:
        assert whole._reductions[name] is torch.sum or whole._reductions[name].__name__ == "dim_zero_sum"
        assert torch.equal(getattr(whole, name), getattr(parts[0], name) + getattr(parts[1], name))


def test_no_k_below_one():
    with pytest.raises(ValueError, match="max_k must be at least 1; got 0"):
        PassAtK(max_k=0)
