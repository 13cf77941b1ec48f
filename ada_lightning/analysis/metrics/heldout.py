"""The figures of a held-out evaluation, over all prompts and per task: avg@k, pass@k, majority@k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import toeplitz
from scipy.special import comb

from ada_lightning.core.records import Response, ResponseGroup

MAX_RESPONSES = 1000
"""``C(1000, 500)`` is about as large as a float64 can be."""


def heldout_metrics(groups: Sequence[ResponseGroup], *, num_samples: int) -> dict[str, float]:
    """Compute ``eval/avg_at_<k>``, ``eval/pass_at_<k>``, ``eval/maj_at_<k>``, length and truncation.

    Where the prompts are of several tasks, each has the same figures under ``eval/<task>/``. ``maj`` is there where the
    reward tells answers, and for all prompts together where it does so for every task.

    Args:
        groups: one per evaluated prompt, whose pool holds every response.
        num_samples: responses drawn per prompt, k. Where grades failed and were left out, ``pass`` and ``maj`` are
            over the prompts that have all k; a figure that no prompt has is left out. ``avg`` is over the prompts with
            a graded response; length and truncation count responses equally, whatever their prompt.
    """
    by_task: dict[str, list[ResponseGroup]] = {}
    for group in groups:
        by_task.setdefault(group.pool.prompt.task, []).append(group)
    of_tasks = {task: _figures(members, num_samples) for task, members in sorted(by_task.items())}
    figures = _figures(groups, num_samples)
    majority = f"maj_at_{num_samples}"
    if not all(majority in of_task for of_task in of_tasks.values()):
        figures.pop(majority, None)
    named = {f"eval/{name}": value for name, value in figures.items()}
    if len(of_tasks) > 1:
        for task, of_task in of_tasks.items():
            named |= {f"eval/{task or 'other'}/{name}": value for name, value in of_task.items()}
    return named


def _figures(groups: Sequence[ResponseGroup], num_samples: int) -> dict[str, float]:
    of_prompts: list[Sequence[Response]] = [group.pool.responses for group in groups if group.pool.responses]
    every = [response for responses in of_prompts for response in responses]
    whole = [responses for responses in of_prompts if len(responses) >= num_samples]
    countable = [responses for responses in whole if len(responses) <= MAX_RESPONSES]
    figures = {f"avg_at_{num_samples}": _mean([_mean([r.reward for r in responses]) for responses in of_prompts])}
    if whole:
        figures[f"pass_at_{num_samples}"] = _mean(
            [pass_at_k(sum(r.is_positive for r in drawn), len(drawn))[num_samples - 1] for drawn in whole]
        )
    if countable and any(response.answer is not None for response in every):
        figures[f"maj_at_{num_samples}"] = _mean(
            [majority_at_k([r.answer for r in d], [r.is_positive for r in d])[num_samples - 1] for d in countable]
        )
    figures["response_tokens"] = _mean([response.num_tokens for response in every])
    figures["truncated_ratio"] = _mean([response.is_truncated for response in every])
    return figures


def _mean(values: Sequence[float]) -> float:
    return float(sum(values) / len(values)) if values else 0.0


def majority_at_k(answers: Sequence[str | None], is_positive: Sequence[bool]) -> NDArray[np.float64]:
    """Expected worth of a majority vote among k responses taken at random without putting back, for every k.

    An answer is worth the share of positives among all responses that give it (1 or 0 unless the reward also looks at
    something else than the answer). Ties are broken uniformly: a tie counts as the mean worth of the tied answers.
    A response without an answer takes its place among the k and does not vote; where nobody votes the worth is 0.

    Nothing is sampled. For each number m of votes of a winner, a polynomial in x (responses drawn) and y (further
    answers with m votes) counts the ways to draw a subset. It has one factor per answer: fewer than m votes, or m votes
    and a y. All terms are positive, so nothing cancels. ``1 / (t + 1)`` of the subsets with t further answers go to
    each. Answers with fewer than m responses have one factor in common, which leaves at most n factors over all m.

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


def chance_all_in_class(num_in_class: int, num_responses: int) -> NDArray[np.float64]:
    """Chance that k responses, taken at random without putting back, all belong to one class, for every k.

    ``C(c, k) / C(n, k)``, the unbiased estimate of ``p^k`` from n responses of which c are of a class of probability p.
    A product of ratios in [0, 1]: no factorial overflows and no difference cancels.

    Args:
        num_in_class: responses of the class, c.
        num_responses: responses, n.

    Returns:
        Shape ``(n,)``, for k = 1 to n.

    Raises:
        ValueError: not ``0 <= num_in_class <= num_responses``.

    Example:
        >>> chance_all_in_class(2, 4).round(4).tolist()
        [0.5, 0.1667, 0.0, 0.0]
    """
    if not 0 <= num_in_class <= num_responses:
        raise ValueError(f"{num_in_class} of {num_responses} responses cannot be of one class")
    taken_k = np.arange(num_responses)
    left_in_class_k = np.maximum(num_in_class - taken_k, 0)
    return np.cumprod(left_in_class_k / (num_responses - taken_k))


def pass_at_k(num_positive: int, num_responses: int) -> NDArray[np.float64]:
    """Chance that at least one of k responses is positive, for every k (Chen et al. 2021, arXiv:2107.03374).

    ``1 - C(n - c, k) / C(n, k)``: unbiased for ``1 - (1 - p)^k``, unlike ``1 - (1 - c/n)^k``.

    Args:
        num_positive: positive responses, c.
        num_responses: graded responses, n.

    Returns:
        Shape ``(n,)``, for k = 1 to n.

    Raises:
        ValueError: not ``0 <= num_positive <= num_responses``.

    Example:
        >>> pass_at_k(1, 4).round(4).tolist()
        [0.25, 0.5, 0.75, 1.0]
    """
    return 1.0 - chance_all_in_class(num_responses - num_positive, num_responses)
