"""The majority among answers, and how sure it is to stay one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


def majority_answer(answers: Sequence[str | None]) -> str | None:
    """Most frequent answer; of equally frequent ones that which came first.

    Args:
        answers: in launch order; None does not vote.

    Returns:
        None where nobody votes.

    Example:
        >>> majority_answer(["5", None, "4", "4", "5"])
        '5'
    """
    votes = Counter(answer for answer in answers if answer is not None)
    return max(votes, key=lambda answer: votes[answer], default=None)


def majority_log_odds(answers: Sequence[str | None], *, vote_accuracy: float) -> float:
    """Log odds that the leading answer is the true majority rather than the runner-up.

    Under "answer j is the consensus" a vote is j with probability p0 and otherwise uniform over the m - 1 others, so
    each vote of lead is worth ``ln(p0 (m - 1) / (1 - p0))``. m is the number of distinct answers seen, at least 2.

    Args:
        answers: None does not vote.
        vote_accuracy: p0, in (1/2, 1).

    Returns:
        ``(c_1 - c_2) ln(p0 (m - 1) / (1 - p0))``, in nats; 0 where nobody votes.

    Source:
        OptPO, arXiv:2512.02882: a sequential probability ratio test (Wald 1945) between leader and runner-up.

    Example:
        >>> round(majority_log_odds(["4", "4", "5"], vote_accuracy=0.75), 4)  # ln 3
        1.0986
    """
    counts = sorted(Counter(answer for answer in answers if answer is not None).values(), reverse=True)
    first, second = ([*counts, 0, 0])[:2]
    return (first - second) * math.log(vote_accuracy * (max(len(counts), 2) - 1) / (1 - vote_accuracy))
