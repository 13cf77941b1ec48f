"""Prompts that are expected to be the most useful, by all that is believed of their pass rates."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from ada_lightning.core.records import Belief
from ada_lightning.methods.curriculum.ranked import UsefulFirst

_NUM_QUANTILES = 64
_QUANTILES_Q = (np.arange(_NUM_QUANTILES) + 0.5) / _NUM_QUANTILES
"""A mean over these is the expectation under a Beta distribution to within 0.001 for ``p (1 - p)``."""


class ExpectedUsefulness(UsefulFirst):
    """Takes the candidates whose expected usefulness is the highest; nothing is drawn.

    A draw explores (:class:`~ada_lightning.methods.curriculum.posterior.PosteriorSampling`): what is learned of a
    prompt pays when it comes back. Where prompts come once or a few times there is little to explore for, and beliefs
    about prompts never sampled are wide, so that draws from them rank little better than chance. What exploration there
    has to be, candidates from epochs and the share in turn see to.

    Expects an estimator that tells prompts apart before they were sampled (``estimator=similar_prompts``): with counts
    alone all prompts never seen are the same.

    Source:
        Ours. What it is worth: ``python -m research.studies.field.fresh``.
    """

    def rank(self, beliefs: Sequence[Belief], generator: random.Random) -> list[int]:
        """Sort by expected usefulness; candidates come shuffled, and ties keep their order."""
        return np.argsort(-self._expected(beliefs).round(9), kind="stable").tolist()

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """``usefulness``: what was expected of the prompts, their mean."""
        return {"usefulness": float(self._expected(beliefs).mean()) if beliefs else 0.0}

    def _expected(self, beliefs: Sequence[Belief]) -> NDArray[np.float64]:
        alpha_P = np.array([belief.alpha for belief in beliefs])
        beta_P = np.array([belief.beta for belief in beliefs])
        rates_PQ = betaincinv(alpha_P[:, None], beta_P[:, None], _QUANTILES_Q)
        values_P: NDArray[np.float64] = np.reshape(self.usefulness(rates_PQ.ravel().tolist()), rates_PQ.shape).mean(
            axis=1
        )
        return values_P

    def _preference(self) -> str:
        return f"prompts come first of which the highest {type(self.usefulness).__name__} is expected"
