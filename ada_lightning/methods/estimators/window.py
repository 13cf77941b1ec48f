"""The pass rate of each prompt's latest rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ada_lightning.core.checks import unmet
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.estimators.counting import CountingEstimator
from ada_lightning.methods.estimators.history_file import HistoryCounts


class WindowEstimator(CountingEstimator):
    """Counts a prompt's last visit, extended backwards to its latest ``window`` rewards, and forgets what is older.

    Args:
        window: rewards that count at least, where there are as many; 1 counts the last visit alone.
        whole_visit: count the whole last visit, however many rewards it had; false counts exactly ``window``.
        alpha: positives imagined beside those counted; above 0.
        beta: negatives imagined beside those counted; above 0.
        history_file: known counts to start from (:mod:`ada_lightning.methods.estimators.history_file`); None starts
            without.

    Raises:
        ValueError: a value out of its range, or a history file that cannot be used; all in one message.

    Source:
        Knapsack RL, arXiv:2509.25849; liziniu/KnapsackRL at ca5d5f5, ``verl/utils/dataset/rl_dataset.py``: its
        ``robust_epoch_estimation`` is ``window=16, whole_visit=true``, its moving average ``whole_visit=false``. It has
        no imagined counts; samplers that want the bare share take :attr:`~ada_lightning.core.records.Belief.seen_rate`.

    Example:
        >>> from ada_lightning.core.records import Prompt
        >>> [belief] = WindowEstimator().predict([Prompt("never seen", ())], represent=lambda prompts: None)
        >>> belief.mean, belief.num_seen
        (0.5, 0.0)
    """

    _state_key = "rewards"

    def __init__(
        self,
        *,
        window: int = 16,
        whole_visit: bool = True,
        alpha: float = 1.0,
        beta: float = 1.0,
        history_file: str | None = None,
    ) -> None:
        errors = unmet(
            (0 < alpha < math.inf, "estimator.alpha must be positive and finite", alpha),
            (0 < beta < math.inf, "estimator.beta must be positive and finite", beta),
            (window >= 1, "estimator.window must be at least 1", window),
            (isinstance(whole_visit, bool), "estimator.whole_visit must be true or false", repr(whole_visit)),
        )
        super().__init__(history_file, errors)
        self.window = window
        self.whole_visit = whole_visit
        self.prior = Belief(float(alpha), float(beta))
        self._known = {
            prompt_id: _in_turn(positives, responses)
            for prompt_id, (positives, responses) in self._history.counts.items()
            if responses > 0
        }
        """Counted rewards, 0 and 1, the latest one last."""

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Add the step's rewards, in launch order, and forget what no longer counts."""
        for pool in pools:
            visit = [int(response.is_positive) for response in pool.responses]
            if not visit:
                continue
            num_counted = max(self.window, len(visit)) if self.whole_visit else self.window
            earlier = self._known.get(pool.prompt.prompt_id, [])
            self._known[pool.prompt.prompt_id] = [*earlier, *visit][-num_counted:]

    def history_counts(self) -> HistoryCounts:
        """What a later run can start from."""
        return {prompt_id: (float(sum(rewards)), float(len(rewards))) for prompt_id, rewards in self._known.items()}

    def recall(self, prompts: Sequence[Prompt]) -> list[Belief]:
        """Return prior plus the counted rewards of each prompt."""
        return [self._belief(prompt.prompt_id) for prompt in prompts]

    def _belief(self, prompt_id: str) -> Belief:
        rewards = self._known.get(prompt_id, [])
        right, num_seen = float(sum(rewards)), float(len(rewards))
        alpha, beta = self.prior.alpha + right, self.prior.beta + num_seen - right
        return Belief(alpha, beta, num_seen, right, prompt_id in self._known)


def _in_turn(positives: float, responses: float) -> list[int]:
    """Rewards of which only the counts are known, as evenly mixed as can be: so any part of them has about their mean.

    Counts that have faded are rounded, but never so that a mixed history seems to be of one kind.

    Example:
        >>> _in_turn(2.0, 6.0), _in_turn(0.2, 1.1), _in_turn(0.0, 3.0)
        ([0, 0, 1, 0, 0, 1], [0, 1], [0, 0, 0])
    """
    is_mixed = 0 < positives < responses
    size = max(round(responses), 2 if is_mixed else 1)
    ones = min(max(round(positives / responses * size), int(is_mixed)), size - int(is_mixed))
    return [(index + 1) * ones // size - index * ones // size for index in range(size)]
