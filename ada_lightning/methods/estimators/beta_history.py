"""Each prompt's own counts, fading with every visit, on top of a prior fitted to all prompts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ada_lightning.core.records import Belief, Prompt, PromptHistory, ResponsePool
from ada_lightning.methods.estimators.drift import Drift
from ada_lightning.methods.estimators.history_file import HistoryCounts, HistoryFile
from ada_lightning.methods.estimators.pooled_prior import fit_pooled_prior
from ada_lightning.methods.estimators.tally import tally

if TYPE_CHECKING:
    from torch import Tensor

_NUM_RECENT = 512
"""Visits of prompts that the prior for unseen ones is fitted to."""


class BetaHistory:
    """Beta posterior of each prompt's pass rate: pooled prior plus its own counts, forgotten geometrically.

    Of prompts with counts of their own the mean of the posterior is then corrected by how far the policy has moved
    since (:class:`~ada_lightning.methods.estimators.drift.Drift`); its strength, alpha + beta, stays.

    Args:
        memory: share of a prompt's counts that survives a visit, since the policy has changed in between.
        drift_visits: latest visits that tell how far the policy has moved since what is remembered; 0 takes what is
            remembered as it is.
        history_file: known counts to start from (:mod:`ada_lightning.methods.estimators.history_file`); None starts
            from the prior alone.

    Raises:
        ValueError: ``memory`` outside [0, 1], ``drift_visits`` negative, or a history file that cannot be used; all in
            one message.
    """

    def __init__(self, *, memory: float = 0.7, drift_visits: int = 0, history_file: str | None = None) -> None:
        errors = [] if 0 <= memory <= 1 else [f"estimator.memory must be in [0, 1]; got {memory}"]
        try:
            self._drift = Drift(drift_visits)
        except ValueError as error:
            errors.append(str(error))
        try:
            self._history = HistoryFile(history_file)
        except ValueError as error:
            errors.append(str(error))
        if errors:
            raise ValueError("; ".join(errors))
        self.memory = memory
        self._counts: dict[str, tuple[float, float]] = {
            prompt_id: (positives, responses - positives)
            for prompt_id, (positives, responses) in self._history.counts.items()
        }
        self._recent: deque[tuple[int, int]] = deque(maxlen=_NUM_RECENT)
        self._prior = Belief()

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Compare the history file, if there is one, with the training prompts.

        Raises:
            ValueError: it knows none of them.
        """
        self._history.check_prompts(prompts)

    def predict(self, prompts: Sequence[Prompt], represent: Callable[[Sequence[Prompt]], Tensor]) -> list[Belief]:
        """Return prior plus remembered counts of each prompt; ``represent`` is not called."""
        return [self._belief(prompt) for prompt in prompts]

    def recall(self, prompts: Sequence[Prompt]) -> list[PromptHistory]:
        """Return the same beliefs, and whether counts of the prompt's own are behind them."""
        return [PromptHistory(self._belief(prompt), prompt.prompt_id in self._counts) for prompt in prompts]

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Add the step's counts, and fit prior and drift again."""
        self.learn(tally(pools))

    def learn(self, seen: Mapping[str, tuple[int, int]]) -> None:
        """Do the same from (positives, responses) by prompt id, such as a prompt log has."""
        self._drift.observe(
            [
                (self._remembered(prompt_id).mean, num_positive, num_sampled)
                for prompt_id, (num_positive, num_sampled) in seen.items()
                if prompt_id in self._counts
            ]
        )
        for prompt_id, (num_positive, num_sampled) in seen.items():
            positives, negatives = self._counts.get(prompt_id, (0.0, 0.0))
            self._counts[prompt_id] = (
                self.memory * positives + num_positive,
                self.memory * negatives + (num_sampled - num_positive),
            )
            self._recent.append((num_positive, num_sampled))
        self._prior = fit_pooled_prior(self._recent)

    def history_counts(self) -> HistoryCounts:
        """What a later run can start from."""
        return {
            prompt_id: (positives, positives + negatives) for prompt_id, (positives, negatives) in self._counts.items()
        }

    def state_dict(self) -> dict[str, Any]:
        """Counts by prompt id, and the outcomes behind prior and drift."""
        return {
            "counts": {prompt_id: list(counts) for prompt_id, counts in self._counts.items()},
            "recent": [list(outcome) for outcome in self._recent],
            "drift": self._drift.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`; it replaces what came from a history file."""
        self._counts = {prompt_id: (counts[0], counts[1]) for prompt_id, counts in state["counts"].items()}
        self._recent = deque(((int(p), int(n)) for p, n in state["recent"]), maxlen=_NUM_RECENT)
        self._prior = fit_pooled_prior(self._recent)
        self._drift.load_state_dict(state.get("drift", []))  # checkpoints of earlier versions have none

    def _belief(self, prompt: Prompt) -> Belief:
        remembered = self._remembered(prompt.prompt_id)
        if prompt.prompt_id not in self._counts or not self._drift.is_known:
            return remembered
        rate, strength = self._drift.corrected(remembered.mean), remembered.alpha + remembered.beta
        return Belief(rate * strength, (1 - rate) * strength, remembered.num_seen, remembered.num_seen_positive)

    def _remembered(self, prompt_id: str) -> Belief:
        """What a prompt's counts say, as if the policy had not moved since."""
        positives, negatives = self._counts.get(prompt_id, (0.0, 0.0))
        return Belief(self._prior.alpha + positives, self._prior.beta + negatives, positives + negatives, positives)
