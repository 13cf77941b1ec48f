"""Estimators that keep numbers by prompt: an exponential average of its counts, and its latest rewards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ada_lightning.core.checks import unmet
from ada_lightning.core.options import option
from ada_lightning.core.prompt_columns import BeliefColumns, PromptNumbers, PromptTable, packed_ids, unpacked_ids
from ada_lightning.core.protocols import PassRateEstimator
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.estimators.history_file import HistoryCounts, HistoryFile


def tally(pools: Iterable[ResponsePool]) -> dict[str, tuple[int, int]]:
    """Return (positives, responses) by prompt id, those of a prompt that stands in the step twice added up.

    All of them come from one policy, so what is remembered of earlier ones fades once. Prompts of which no response was
    graded are left out: nothing was seen of them, so nothing of them fades and none of them becomes a known one.
    """
    counts: dict[str, tuple[int, int]] = {}
    for pool in pools:
        positives, responses = counts.get(pool.prompt.prompt_id, (0, 0))
        counts[pool.prompt.prompt_id] = positives + pool.num_positive, responses + pool.num_sampled
    return {prompt_id: seen for prompt_id, seen in counts.items() if seen[1]}


class CountingEstimator(PassRateEstimator):
    """Keeps numbers by prompt id, and may start from those of a history file.

    Args:
        history_file: known counts to start from (:mod:`ada_lightning.methods.estimators.history_file`); None starts
            without.
        errors: what is wrong with other arguments.

    Raises:
        ValueError: there are errors, or the history file cannot be used; all in one message.
    """

    _state_key: ClassVar[str] = "counts"

    def __init__(self, history_file: str | None, errors: Sequence[str]) -> None:
        self._history = HistoryFile(history_file, errors)
        self._known = PromptNumbers(
            {prompt_id: (right, responses - right) for prompt_id, (right, responses) in self._history.counts.items()}
        )
        """(positives, negatives), unless a subclass keeps other numbers."""

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Compare the history file, if there is one, with the training prompts.

        Raises:
            ValueError: it knows none of them.
        """
        self._history.check_prompts(prompts)

    def history_counts(self) -> HistoryCounts:
        """What a later run can start from."""
        return {prompt_id: (right, right + wrong) for prompt_id, (right, wrong) in self._known.items()}

    def state_dict(self) -> dict[str, Any]:
        """What is kept of each prompt."""
        return {self._state_key: self._known.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`; it replaces what came from a history file."""
        self._known = PromptNumbers.from_state(state[self._state_key])


@option("estimator", "ema")
class EmaEstimator(CountingEstimator):
    """Each prompt's own counts, averaged exponentially, on a fixed Beta prior (arXiv:2510.04996v3, Est).

    Predicts ``(positives + alpha) / (responses + alpha + beta)``. With every visit to a prompt, ``positives <- decay *
    positives + k`` and ``responses <- decay * responses + n``. Nothing fades between visits. The defaults expect little
    of a prompt never seen: 1/17. With 8 responses per visit the responses tend to 8 / (1 - 0.9) = 80, so predictions
    stay between 1/97 and 81/97.

    Args:
        alpha: positives imagined beforehand; above 0.
        beta: negatives imagined beforehand; above 0.
        decay: share of a prompt's counts that survives a visit, since the policy has changed in between.
        history_file: known counts to start from: a run's history.json (``{prompt id: [positives, responses]}``) or
            measured pass rates as .parquet (``prompt_id, num_positive, num_samples``); None: none.

    Raises:
        ValueError: a value out of its range, or a history file that cannot be used; all in one message.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, section on Est (EMA with a Beta prior, no values given); the values are those
        of RLHFlow/Reinforce-Ada at e876f3e (branch ``hanze``), ``ray_trainer_ema.py`` L989-1009 and L1158-1165.

    Example:
        >>> estimator = EmaEstimator()
        >>> [belief] = estimator.predict([Prompt("never seen", ())], represent=lambda prompts: None)
        >>> belief.alpha, belief.beta
        (1.0, 16.0)
    """

    def __init__(
        self, *, alpha: float = 1.0, beta: float = 16.0, decay: float = 0.9, history_file: str | None = None
    ) -> None:
        errors = unmet(
            (0 < alpha < math.inf, "estimator.alpha must be positive and finite", alpha),
            (0 < beta < math.inf, "estimator.beta must be positive and finite", beta),
            (0 <= decay <= 1, "estimator.decay must be in [0, 1]", decay),
        )
        super().__init__(history_file, errors)
        self.prior = Belief(float(alpha), float(beta))
        self.decay = decay
        self._known = PromptNumbers(self._history.counts)
        """(positives, responses)."""

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Let the counts of these prompts fade and add those of the step."""
        for prompt_id, (num_positive, num_sampled) in tally(pools).items():
            positives, responses = self._known.get(prompt_id, (0.0, 0.0))
            self._known[prompt_id] = self.decay * positives + num_positive, self.decay * responses + num_sampled

    def history_counts(self) -> HistoryCounts:
        """What a later run can start from."""
        return {prompt_id: (positives, responses) for prompt_id, (positives, responses) in self._known.items()}

    def recall(self, prompts: Sequence[Prompt]) -> Sequence[Belief]:
        """Return prior plus remembered counts of each prompt."""
        if not isinstance(prompts, PromptTable):
            return [self._belief(prompt.prompt_id) for prompt in prompts]
        counts_PW, is_seen_P = self._known.columns(prompts)
        right_P, responses_P = counts_PW.T
        alpha_P, beta_P = self.prior.alpha + right_P, self.prior.beta + responses_P - right_P
        return BeliefColumns(alpha_P, beta_P, responses_P, right_P, is_seen_P)

    def _belief(self, prompt_id: str) -> Belief:
        right, responses = self._known.get(prompt_id, (0.0, 0.0))
        alpha, beta = self.prior.alpha + right, self.prior.beta + responses - right
        return Belief(alpha, beta, responses, right, prompt_id in self._known)


@option("estimator", "window")
class WindowEstimator(CountingEstimator):
    """The pass rate of each prompt's latest rewards (arXiv:2509.25849).

    Counts a prompt's last visit, extended backwards to its latest ``window`` rewards, and forgets what is older.

    Args:
        window: rewards that count at least, where there are as many; 1 counts the last visit alone (code: 16).
        whole_visit: count the whole last visit, however many rewards it had; false counts exactly ``window`` (code:
            true).
        alpha: positives assumed in addition to those counted, where a prior is needed; above 0 (ours).
        beta: negatives assumed in addition to those counted; above 0 (ours).
        history_file: known counts to start from: a run's history.json (``{prompt id: [positives, responses]}``) or
            measured pass rates as .parquet (``prompt_id, num_positive, num_samples``); None: none.

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
        self._rewards = {
            prompt_id: bytes(_in_turn(positives, responses))
            for prompt_id, (positives, responses) in self._history.counts.items()
            if responses > 0
        }
        """Counted rewards, 0 and 1, the latest one last."""

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Add the step's rewards, in launch order, and forget what no longer counts."""
        for pool in pools:
            visit = bytes(response.is_positive for response in pool.responses)
            if not visit:
                continue
            num_counted = max(self.window, len(visit)) if self.whole_visit else self.window
            earlier = self._rewards.get(pool.prompt.prompt_id, b"")
            self._rewards[pool.prompt.prompt_id] = (earlier + visit)[-num_counted:]

    def history_counts(self) -> HistoryCounts:
        """What a later run can start from."""
        return {prompt_id: (float(sum(rewards)), float(len(rewards))) for prompt_id, rewards in self._rewards.items()}

    def state_dict(self) -> dict[str, Any]:
        """The counted rewards, end to end, and how many each prompt has."""
        import torch

        if not self._rewards:
            return {self._state_key: {}}
        rewards = torch.tensor(list(b"".join(self._rewards.values())), dtype=torch.uint8)
        lengths = torch.tensor([len(each) for each in self._rewards.values()], dtype=torch.int32)
        return {self._state_key: {"ids": packed_ids(list(self._rewards)), "lengths": lengths, "rewards": rewards}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`, or lists by prompt id; it replaces what came from a history file."""
        found = state[self._state_key]
        if set(found) != {"ids", "lengths", "rewards"}:
            self._rewards = {prompt_id: bytes(rewards) for prompt_id, rewards in found.items()}
            return
        ends = np.cumsum(found["lengths"].numpy()).tolist()
        rewards = found["rewards"].numpy().tobytes()
        starts = [0, *ends[:-1]]
        self._rewards = {
            prompt_id: rewards[start:end]
            for prompt_id, start, end in zip(unpacked_ids(found["ids"]), starts, ends, strict=True)
        }

    def recall(self, prompts: Sequence[Prompt]) -> list[Belief]:
        """Return prior plus the counted rewards of each prompt."""
        return [self._belief(prompt.prompt_id) for prompt in prompts]

    def _belief(self, prompt_id: str) -> Belief:
        rewards = self._rewards.get(prompt_id, b"")
        right, num_seen = float(sum(rewards)), float(len(rewards))
        alpha, beta = self.prior.alpha + right, self.prior.beta + num_seen - right
        return Belief(alpha, beta, num_seen, right, prompt_id in self._rewards)


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
