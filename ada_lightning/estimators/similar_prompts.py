"""A pass rate from the prompt's own visits and from those of prompts that are like it.

Equation: ``logit p_x(t) = base + drift(t) + similar(x) + own(x)``, four Gaussian processes: one number for all prompts;
    one that moves with the policy, of covariance ``exp(-visits between / drift_visits)``; a linear function of where
    the prompt lies (:class:`~ada_lightning.protocols.PromptEmbedding`); a number for each prompt. Counts are binomial.
Claim: prompts that were never sampled are told apart from the first steps on, when most groups of a new task have no
    signal, and what is remembered keeps up with a policy that learns.
Assumption: the policy gets better at all prompts alike, in logits; what differs between prompts stays.
Degenerate: with an embedding that says nothing, and far from all prompts seen, every prompt is expected to be as those
    visited lately; before the first step a pass rate is anything.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ada_lightning.estimators.policy_embedding import PolicyEmbedding
from ada_lightning.estimators.tally import tally
from ada_lightning.functional.binomial_process import LaplaceFit, beta_of_logit, fit_laplace
from ada_lightning.protocols import PromptEmbedding
from ada_lightning.types import Belief, Prompt, PromptHistory, ResponsePool

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]


class _Visit(NamedTuple):
    prompt_id: str
    positives: int
    responses: int
    time: int
    """Visits before its step."""
    row_H: NDArray[np.float32]
    """Where its prompt lies."""


class _Points(NamedTuple):
    """What a covariance is computed from."""

    prompt_ids: NDArray[np.str_]
    times_N: Array
    rows_NH: Array


class SimilarPrompts:
    """Beliefs from a Gaussian process over all prompts, fitted anew to the latest visits after every step.

    The posterior of each logit, a normal distribution (Laplace's approximation), becomes the Beta distribution of the
    same mean and variance. A step costs ``O(num_visits^3)``, a few Cholesky factors of that size, and asking about M
    prompts ``O(M num_visits^2)``; a checkpoint holds ``num_visits H`` floats.

    Args:
        embedding: where prompts lie; one that needs no policy, since candidates are asked about before a step.
        num_visits: latest visits that are remembered.
        drift_visits: visits after which the policy has moved so far that ``1/e`` of the drift is left.
        base_scale: standard deviation of the base, in logits.
        drift_scale: of the drift.
        similar_scale: of what a prompt shares with those like it. 0: nothing.
        own_scale: of what it has for itself. 0: nothing.

    Raises:
        ValueError: a value out of its range, or an embedding that needs the policy; all in one message.

    Source:
        Ours. Gaussian process classification: Rasmussen and Williams 2006, chapter 3; one over prompts, with pass rates
        taken as observed logits: VIP, arXiv:2602.01601. What it foretells: ``python -m studies.drift``.
    """

    def __init__(
        self,
        *,
        embedding: PromptEmbedding,
        num_visits: int = 512,
        drift_visits: float = 256.0,
        base_scale: float = 2.0,
        drift_scale: float = 1.0,
        similar_scale: float = 2.0,
        own_scale: float = 2.0,
    ) -> None:
        scales = {"similar_scale": similar_scale, "own_scale": own_scale, "drift_scale": drift_scale}
        errors = [] if num_visits >= 1 else [f"estimator.num_visits must be at least 1; got {num_visits}"]
        errors += [
            f"estimator.{name} must be positive and finite; got {value}"
            for name, value in (("drift_visits", drift_visits), ("base_scale", base_scale))
            if not 0 < value < math.inf
        ]
        errors += [
            f"estimator.{name} must be 0 (none) or positive, and finite; got {value}"
            for name, value in scales.items()
            if not 0 <= value < math.inf
        ]
        if isinstance(embedding, PolicyEmbedding):
            errors.append(
                "estimator.embedding: SimilarPrompts is asked about candidates where there is no policy to embed them; "
                "use estimator/embedding=words or sentence"
            )
        if errors:
            raise ValueError("; ".join(errors))
        self.embedding = embedding
        self.num_visits = num_visits
        self.drift_visits = float(drift_visits)
        self.base_scale = float(base_scale)
        self.drift_scale = float(drift_scale)
        self.similar_scale = float(similar_scale)
        self.own_scale = float(own_scale)
        self._visits: deque[_Visit] = deque(maxlen=num_visits)
        self._time = 0
        self._fit: LaplaceFit | None = None
        self._seen_points: _Points | None = None
        self._counts: dict[str, tuple[int, int]] = {}

    def check(self) -> None:
        """Check the embedding, where it can be, before any model loads."""
        if callable(check := getattr(self.embedding, "check", None)):
            check()

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Let the embedding learn from the training prompts, where it does.

        Raises:
            ValueError: it cannot.
        """
        if callable(fit := getattr(self.embedding, "fit", None)):
            fit(prompts)

    def predict(self, prompts: Sequence[Prompt], represent: Callable[[Sequence[Prompt]], Tensor]) -> list[Belief]:
        """Return one belief per prompt; ``represent`` is not called."""
        return self._beliefs(prompts)

    def recall(self, prompts: Sequence[Prompt]) -> list[PromptHistory]:
        """Return the same beliefs, and whether visits to the prompt are remembered."""
        return [
            PromptHistory(belief, prompt.prompt_id in self._counts)
            for prompt, belief in zip(prompts, self._beliefs(prompts), strict=True)
        ]

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Add the step's counts and fit again. A prompt with two pools counts once, with both."""
        seen = tally(pools)
        prompts = {pool.prompt.prompt_id: pool.prompt for pool in pools if pool.prompt.prompt_id in seen}
        self.learn([(prompts[prompt_id], *counts) for prompt_id, counts in seen.items()])

    def learn(self, visits: Sequence[tuple[Prompt, int, int]]) -> None:
        """Do the same from (prompt, positives, responses), the visits of one step."""
        if not visits:
            return
        rows_PH = self._rows([prompt for prompt, _, _ in visits])
        for (prompt, positives, responses), row_H in zip(visits, rows_PH, strict=True):
            self._visits.append(_Visit(prompt.prompt_id, positives, responses, self._time, row_H))
        self._time += len(visits)
        self._fit_again()

    def history_counts(self) -> Mapping[str, tuple[float, float]]:
        """What is remembered of each prompt, for a later run with ``estimator=beta_history``."""
        return {prompt_id: (float(seen[0]), float(seen[1])) for prompt_id, seen in self._counts.items()}

    def state_dict(self) -> dict[str, Any]:
        """The visits with the rows of their prompts, and the time."""
        import torch

        return {
            "time": self._time,
            "visits": [[visit.prompt_id, visit.positives, visit.responses, visit.time] for visit in self._visits],
            "rows": torch.from_numpy(np.stack([visit.row_H for visit in self._visits])) if self._visits else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        rows = [] if state["rows"] is None else state["rows"].numpy()
        self._time = int(state["time"])
        self._visits.clear()
        for (prompt_id, positives, responses, time), row_H in zip(state["visits"], rows, strict=True):
            self._visits.append(_Visit(str(prompt_id), int(positives), int(responses), int(time), row_H))
        self._fit_again()

    def _fit_again(self) -> None:
        self._counts = {}
        for visit in self._visits:
            positives, responses = self._counts.get(visit.prompt_id, (0, 0))
            self._counts[visit.prompt_id] = positives + visit.positives, responses + visit.responses
        if not self._visits:
            self._fit = self._seen_points = None
            return
        points = _Points(
            np.array([visit.prompt_id for visit in self._visits]),
            np.array([visit.time for visit in self._visits], dtype=float),
            np.stack([visit.row_H for visit in self._visits]).astype(float),
        )
        positives_V = np.array([visit.positives for visit in self._visits], dtype=float)
        responses_V = np.array([visit.responses for visit in self._visits], dtype=float)
        self._seen_points = points
        self._fit = fit_laplace(self._covariance(points, points, points), positives_V, responses_V)

    def _beliefs(self, prompts: Sequence[Prompt]) -> list[Belief]:
        if not prompts:
            return []
        if self._fit is None or self._seen_points is None:
            total = self.base_scale**2 + self.drift_scale**2 + self.similar_scale**2 + self.own_scale**2
            mean_P, variance_P = np.zeros(len(prompts)), np.full(len(prompts), total)
        else:
            rows_PH = self._rows(prompts).astype(float)
            now = _Points(
                np.array([prompt.prompt_id for prompt in prompts]), np.full(len(prompts), float(self._time)), rows_PH
            )
            mean_P, variance_P = self._fit.predicted(
                self._covariance(now, self._seen_points, self._seen_points), self._variance(now, self._seen_points)
            )
        alpha_P, beta_P = beta_of_logit(mean_P, variance_P)
        beliefs = []
        for prompt, alpha, beta in zip(prompts, alpha_P.tolist(), beta_P.tolist(), strict=True):
            positives, responses = self._counts.get(prompt.prompt_id, (0, 0))
            beliefs.append(Belief(alpha, beta, float(responses), float(positives)))
        return beliefs

    def _covariance(self, these: _Points, those: _Points, seen: _Points) -> Array:
        """Return the covariance of logits before anything was seen. Shape ``(these, those)``."""
        age = np.abs(these.times_N[:, None] - those.times_N)
        near = self._placed(these, seen) @ self._placed(those, seen).T
        same = these.prompt_ids[:, None] == those.prompt_ids
        return (
            self.base_scale**2
            + self.drift_scale**2 * np.exp(-age / self.drift_visits)
            + self.similar_scale**2 * near
            + self.own_scale**2 * same
        )

    def _variance(self, these: _Points, seen: _Points) -> Array:
        """Return the diagonal of the covariance of points with themselves."""
        near = (self._placed(these, seen) ** 2).sum(axis=1)
        return self.base_scale**2 + self.drift_scale**2 + self.similar_scale**2 * near + self.own_scale**2

    @staticmethod
    def _placed(points: _Points, seen: _Points) -> Array:
        """Rows relative to the middle of those seen, whose mean square distance from it becomes 1."""
        middle_H = seen.rows_NH.mean(axis=0)
        square = ((seen.rows_NH - middle_H) ** 2).sum(axis=1).mean()
        return (points.rows_NH - middle_H) / math.sqrt(square or 1.0)

    def _rows(self, prompts: Sequence[Prompt]) -> NDArray[np.float32]:
        """Embed prompts.

        Raises:
            ValueError: the rows are not finite, not one per prompt, or of another size than before.
        """
        rows_PH = self.embedding(prompts, _no_policy).detach().to("cpu").float().numpy()
        name = type(self.embedding).__name__
        if rows_PH.ndim != 2 or len(rows_PH) != len(prompts):
            raise ValueError(f"{name} gave a tensor of shape {rows_PH.shape} for {len(prompts)} prompts")
        if self._visits and rows_PH.shape[1] != len(self._visits[0].row_H):
            raise ValueError(
                f"{name} gives embeddings of {rows_PH.shape[1]} numbers, those of earlier prompts have "
                f"{len(self._visits[0].row_H)}: is this the checkpoint of a run with other prompts or another encoder? "
                "Continue with those, or start a new run"
            )
        if not np.isfinite(rows_PH).all():
            raise ValueError(f"{name} gave an embedding that is not finite")
        return rows_PH


def _no_policy(prompts: Sequence[Prompt]) -> Tensor:
    raise ValueError(
        "SimilarPrompts is asked about candidates where there is no policy to embed them; use an embedding that does "
        "not call represent, such as estimator/embedding=words or sentence"
    )
