"""maj@k: what the most frequent answer of k responses is worth, exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import toeplitz
from scipy.special import comb

MAX_RESPONSES = 1000
"""``C(1000, 500)`` is about as large as a float64 can be."""


def majority_at_k(answers: Sequence[str | None], is_positive: Sequence[bool]) -> NDArray[np.float64]:
    """Expected worth of a majority vote among k responses taken at random without putting back, for every k.

    An answer is worth the share of positives among all responses that give it (1 or 0 unless the reward also looks at
    something else than the answer). Ties are broken uniformly: a tie counts as the mean worth of the tied answers.
    A response without an answer takes its place among the k and does not vote; where nobody votes the worth is 0.

    Nothing is sampled. For each number m of votes of a winner, the ways to draw a subset are counted by a polynomial
    in x (responses drawn) and y (further answers with m votes), with one factor per answer: fewer than m votes, or m
    votes and a y. All terms are positive, so nothing cancels. ``1 / (t + 1)`` of the subsets with t further answers go
    to each. Answers with fewer than m responses have one factor in common, which leaves at most n factors over all m.

    Args:
        answers: of each response; None does not vote. Equal answers are equal texts.
        is_positive: of each response, in the same order.

    Returns:
        Shape ``(n,)``, for k = 1 to n.

    Raises:
        ValueError: the lengths differ, or there are more than :data:`MAX_RESPONSES`.

    Example:
        >>> majority_at_k(["4", "4", "5"], [True, True, False]).round(4).tolist()
        [0.6667, 0.6667, 1.0]
    """
    if len(answers) != len(is_positive):
        raise ValueError(f"{len(answers)} answers of {len(is_positive)} responses")
    if len(answers) > MAX_RESPONSES:
        raise ValueError(f"maj@k is exact for at most {MAX_RESPONSES} responses of a prompt; got {len(answers)}")
    votes: dict[str, list[bool]] = {}
    for answer, positive in zip(answers, is_positive, strict=True):
        if answer is not None:
            votes.setdefault(answer, []).append(positive)
    counts = [(len(verdicts), sum(verdicts) / len(verdicts)) for verdicts in votes.values()]
    size = len(answers)
    ways_k = np.zeros(size + 1)
    for num_votes in range(1, max((count for count, _ in counts), default=0) + 1):
        ways_k += _ways_to_win(counts, num_votes, size)
    return ways_k[1:] / comb(size, np.arange(1, size + 1))


def _ways_to_win(counts: Sequence[tuple[int, float]], num_votes: int, size: int) -> NDArray[np.float64]:
    """Subsets by their size in which the winner has ``num_votes``, each weighted by what the winner is worth."""
    contenders = [(count, worth) for count, worth in counts if count >= num_votes]
    others = size - sum(count for count, _ in contenders)
    num_ties = min(len(contenders), size // num_votes)
    # Rows: further answers with as many votes. Columns: responses drawn.
    without_winner = np.zeros((num_ties + 1, size + 1))
    without_winner[0, : others + 1] = comb(others, np.arange(others + 1))
    with_winner = np.zeros_like(without_winner)
    for count, worth in contenders:
        fewer = _times_matrix(comb(count, np.arange(num_votes)), size)
        equal = comb(count, num_votes)
        joined = _draw(without_winner, num_votes) * equal
        with_winner = with_winner @ fewer + _next_tie(_draw(with_winner, num_votes) * equal) + worth * joined
        without_winner = without_winner @ fewer + _next_tie(joined)
    return (with_winner / np.arange(1, num_ties + 2)[:, None]).sum(axis=0)


def _times_matrix(coefficients: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Matrix that multiplies polynomials (rows) by another one, up to degree ``size``."""
    row = np.zeros(size + 1)
    row[: len(coefficients)] = coefficients
    return toeplitz(np.concatenate([row[:1], np.zeros(size)]), row)


def _draw(polynomial: NDArray[np.float64], num_responses: int) -> NDArray[np.float64]:
    shifted = np.zeros_like(polynomial)
    shifted[:, num_responses:] = polynomial[:, :-num_responses]
    return shifted


def _next_tie(polynomial: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = np.zeros_like(polynomial)
    shifted[1:] = polynomial[:-1]
    return shifted
