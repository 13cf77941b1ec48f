"""Figures of subsets of a prompt's responses, against every subset; held-out figures made of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from statistics import mean

import numpy as np
import pytest

from ada_lightning.analysis.metrics.heldout import chance_all_in_class, heldout_metrics, majority_at_k, pass_at_k
from ada_lightning.core.records import Prompt, ResponseGroup, ResponsePool
from tests.builders import make_response

EXACT = {"rel": 1e-12, "abs": 1e-14}  # float64 sums of at most a few hundred positive terms


def group_of(verdicts, answers=None, *, tokens=2, truncated=(), key="a", task=""):
    pool = ResponsePool(Prompt(key, (), task=task), slot=0)
    for index, verdict in enumerate(verdicts):
        response = make_response(index, float(verdict), prompt_id=key, num_tokens=tokens)
        answer = answers[index] if answers else None
        pool.add(replace(response, is_truncated=index in truncated, answer=answer))
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


def vote(answers, verdicts, chosen):
    """Worth of a majority vote among chosen responses, from its definition."""
    counts = Counter(answers[i] for i in chosen if answers[i] is not None)
    if not counts:
        return 0.0
    tied = [answer for answer, count in counts.items() if count == max(counts.values())]
    return mean(mean(float(v) for a, v in zip(answers, verdicts, strict=True) if a == answer) for answer in tied)


def random_votes():
    generator = np.random.default_rng(0)
    for _ in range(40):
        size = int(generator.integers(1, 10))
        yield "".join("-abcd"[a] for a in generator.integers(0, 5, size)), generator.integers(0, 2, size).tolist()


@pytest.mark.parametrize(
    ("answers", "verdicts"),
    [
        ("aabb", [1, 1, 0, 0]),  # a tie of the whole
        ("abcdef", [1, 0, 0, 0, 0, 0]),
        ("aaab----", [1, 1, 1, 0, 0, 0, 0, 0]),  # - has no answer
        ("-----", [0, 0, 0, 0, 0]),
        ("aabbbc-d", [1, 0, 0, 0, 0, 1, 1, 0]),  # equal answers with unequal verdicts; a positive without an answer
        *random_votes(),
    ],
)
def test_maj_at_k_is_the_mean_over_all_subsets_and_ties(answers, verdicts):
    answers = [None if answer == "-" else answer for answer in answers]
    expected = over_subsets(len(answers), lambda chosen: vote(answers, verdicts, chosen))
    assert majority_at_k(answers, [bool(v) for v in verdicts]) == pytest.approx(expected, **EXACT)


def test_maj_at_k_of_many_responses_by_sampling():
    """64 responses: four standard errors of 4,000 seeded subsets, each worth 0, 1 or the share of a tie."""
    answers = ["a"] * 20 + ["b"] * 18 + ["c"] * 10 + [None] * 6 + [str(i) for i in range(10)]
    verdicts = [answer == "a" for answer in answers]
    exact = majority_at_k(answers, verdicts)
    generator = np.random.default_rng(1)
    for k in (3, 16, 40):
        draws = [vote(answers, verdicts, generator.permutation(64)[:k]) for _ in range(4000)]
        assert exact[k - 1] == pytest.approx(mean(draws), abs=4 * np.std(draws) / 4000**0.5)
    assert (exact[0], exact[-1]) == (pytest.approx(20 / 64), 1.0)


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ValueError, match="5 of 4 responses"):
        chance_all_in_class(5, 4)
    with pytest.raises(ValueError, match="at most 1000 responses of a prompt; got 1001"):
        majority_at_k([None] * 1001, [False] * 1001)
    with pytest.raises(ValueError, match="2 answers of 1 responses"):
        majority_at_k(["1", "2"], [True])


SUMS = [
    group_of([1, 0, 0, 0], ["4", "5", "5", None], task="sum", key="a"),
    group_of([1, 1, 0, 0], ["4", "4", "5", "6"], task="sum", key="b", tokens=4, truncated=(3,)),
]
FEWER = group_of([1, 1], ["4", "4"], task="sum", key="d")  # two of four grades failed and were left out
WORDS = group_of([1, 1, 1, 0], task="words", key="c")


def test_heldout_figures_of_one_task_by_hand():
    assert heldout_metrics(SUMS, num_samples=4) == {
        "eval/avg_at_4": pytest.approx(3 / 8),
        "eval/pass_at_4": 1.0,
        "eval/maj_at_4": pytest.approx(0.5),
        "eval/response_tokens": 3.0,
        "eval/truncated_ratio": 1 / 8,
    }


def test_a_prompt_counts_for_as_many_responses_as_it_has():
    """avg: three prompts, equally; length: every response, equally; pass and maj: the two prompts with all four."""
    found = heldout_metrics([*SUMS, FEWER, group_of([], task="sum")], num_samples=4)
    assert found["eval/avg_at_4"] == pytest.approx((1 / 4 + 2 / 4 + 1) / 3)
    assert found["eval/response_tokens"] == pytest.approx((4 * 2 + 4 * 4 + 2 * 2) / 10)
    whole = heldout_metrics(SUMS, num_samples=4)
    assert [found[f"eval/{name}_at_4"] for name in ("pass", "maj")] == [
        whole[f"eval/{name}_at_4"] for name in ("pass", "maj")
    ]
    none = heldout_metrics([FEWER], num_samples=4)
    assert none.keys() == {"eval/avg_at_4", "eval/response_tokens", "eval/truncated_ratio"}


@pytest.mark.parametrize(("verdicts", "k", "expected"), [([1, 0, 0, 0, 0], 2, 2 / 5), ([1], 1, 1.0)])
def test_more_responses_than_k_estimate_the_same_k(verdicts, k, expected):
    assert heldout_metrics([group_of(verdicts)], num_samples=k)[f"eval/pass_at_{k}"] == pytest.approx(expected)


def test_several_tasks_have_figures_of_their_own_and_a_vote_needs_answers():
    figures = heldout_metrics([*SUMS, WORDS], num_samples=4)
    assert figures["eval/avg_at_4"] == pytest.approx((1 / 4 + 2 / 4 + 3 / 4) / 3)
    assert figures["eval/sum/avg_at_4"] == pytest.approx(3 / 8)
    assert figures["eval/words/avg_at_4"] == pytest.approx(3 / 4)
    assert figures["eval/sum/maj_at_4"] == pytest.approx(0.5)
    assert not {"eval/maj_at_4", "eval/words/maj_at_4"} & figures.keys()


def test_a_vote_of_more_than_can_be_counted_is_left_out():
    """pass@1024 and the like go without maj@k, and do not end the evaluation."""
    figures = heldout_metrics([group_of([1, 0] * 501, ["4", "5"] * 501)], num_samples=1002)
    assert figures["eval/pass_at_1002"] == 1.0
    assert "eval/maj_at_1002" not in figures
