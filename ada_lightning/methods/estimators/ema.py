"""Each prompt's own counts, fading by a constant factor per visit, on top of a fixed Beta prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ada_lightning.core.records import Belief, Prompt, PromptHistory, ResponsePool
from ada_lightning.methods.estimators.history_file import HistoryCounts, HistoryFile
from ada_lightning.methods.estimators.tally import tally

if TYPE_CHECKING:
    from torch import Tensor


class EmaEstimator:
    """Predicts ``(positives + alpha) / (responses + alpha + beta)`` from counts that are averaged exponentially.

    With every visit to a prompt, ``positives <- decay * positives + k`` and ``responses <- decay * responses + n``.
    Nothing fades between visits. The defaults expect little of a prompt never seen: 1/17. With 8 responses per visit
    the responses tend to 8 / (1 - 0.9) = 80, so predictions stay between 1/97 and 81/97.

    Args:
        alpha: positives imagined beforehand; above 0.
        beta: negatives imagined beforehand; above 0.
        decay: share of a prompt's counts that survives a visit, since the policy has changed in between.
        history_file: known counts to start from (:mod:`ada_lightning.methods.estimators.history_file`); None starts
            from the prior alone.

    Raises:
        ValueError: a value out of its range, or a history file that cannot be used; all in one message.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, section on Est (EMA with a Beta prior, no values given); the values are those
        of the public code, ``ray_trainer_ema.py`` L989-1009 and L1158-1165 at e876f3e.

    Example:
        >>> estimator = EmaEstimator()
        >>> [belief] = estimator.predict([Prompt("never seen", ())], represent=lambda prompts: None)
        >>> belief.alpha, belief.beta
        (1.0, 16.0)
    """

    def __init__(
        self, *, alpha: float = 1.0, beta: float = 16.0, decay: float = 0.9, history_file: str | None = None
    ) -> None:
        errors = [
            f"estimator.{name} must be positive and finite; got {value}"
            for name, value in (("alpha", alpha), ("beta", beta))
            if not 0 < value < math.inf
        ]
        if not 0 <= decay <= 1:
            errors.append(f"estimator.decay must be in [0, 1]; got {decay}")
        try:
            self._history = HistoryFile(history_file)
        except ValueError as error:
            errors.append(str(error))
        if errors:
            raise ValueError("; ".join(errors))
        self.prior = Belief(float(alpha), float(beta))
        self.decay = decay
        self._counts = dict(self._history.counts)

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
        """Let the counts of these prompts fade and add those of the step."""
        for prompt_id, (num_positive, num_sampled) in tally(pools).items():
            positives, responses = self._counts.get(prompt_id, (0.0, 0.0))
            self._counts[prompt_id] = self.decay * positives + num_positive, self.decay * responses + num_sampled

    def history_counts(self) -> HistoryCounts:
        """What a later run can start from."""
        return dict(self._counts)

    def state_dict(self) -> dict[str, Any]:
        """(positives, responses) by prompt id."""
        return {"counts": {prompt_id: list(counts) for prompt_id, counts in self._counts.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`; it replaces what came from a history file."""
        self._counts = {prompt_id: (counts[0], counts[1]) for prompt_id, counts in state["counts"].items()}

    def _belief(self, prompt: Prompt) -> Belief:
        positives, responses = self._counts.get(prompt.prompt_id, (0.0, 0.0))
        return Belief(self.prior.alpha + positives, self.prior.beta + responses - positives, responses, positives)
