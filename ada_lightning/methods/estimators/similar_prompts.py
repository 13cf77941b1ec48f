"""A pass rate from the prompt's own visits and from those of prompts that are like it.

Equation: ``logit p_x(t) = base + drift(t) + similar(x, t) + own(x, t)``, four Gaussian processes. ``base`` is one
    number for all prompts. ``drift`` moves with the policy, with covariance ``exp(-visits between / drift_visits)``.
    ``similar`` is a linear function of where the prompt lies (:class:`~ada_lightning.core.protocols.PromptEmbedding`),
    and ``own`` a number for each prompt. Both have covariance ``exp(-visits between / prompt_drift_visits)`` in time.
    Counts are binomial.
Claim: prompts that were never sampled are told apart from the first steps on, when most groups of a new task have no
    signal, and what is remembered keeps up with a policy that learns.
Assumption: most of what the policy learns shows in all prompts alike, in logits; what differs between prompts moves
    too, but more slowly.
Degenerate: with an embedding that says nothing every prompt never seen is expected to be as those visited lately;
    before the first step a pass rate is anything.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ada_lightning.core.checks import unmet
from ada_lightning.core.options import option
from ada_lightning.core.prompt_columns import found_by_id, ids_of
from ada_lightning.core.protocols import PromptEmbedding, Trait
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.estimators.binomial_process import (
    ProcessFit,
    Sites,
    beta_of_logit,
    fit_laplace,
    fit_moments,
)
from ada_lightning.methods.estimators.counting import CountingEstimator, tally
from ada_lightning.methods.estimators.logit_prior import (
    LARGEST_SCALE,
    Between,
    LogitPrior,
    Placed,
    ScaleSearch,
    SpreadFit,
    expected_spread,
    shown_spread,
    with_spread,
)
from ada_lightning.methods.estimators.prompt_places import NO_POLICY, PromptPlaces

Array = NDArray[np.float64]

_LEAST_WIDTH, _LARGEST_WIDTH = 0.01, 100.0
_FADING = 0.7
"""Share of a prompt's counts that survives a visit, in what is passed on to a later run: that of ``beta_history``."""


class _Visit(NamedTuple):
    prompt_id: str
    positives: float
    responses: float
    time: int
    """Visits before its step."""
    row_H: NDArray[np.float32]
    """Where its prompt lies."""
    excess: float = math.nan
    """Spread of its responses beyond what was expected; not a number where it is not looked at or too few."""


@option("estimator", "similar_prompts", choices={"embedding": "words"})
class SimilarPrompts(CountingEstimator):
    """A Gaussian process over prompts: learns from their visits, from similar words and from how the policy moves.

    It is fitted anew to the latest visits after every step.

    The posterior of each logit, a normal distribution found by expectation propagation, becomes the Beta distribution
    of the same mean and variance. It rests on all that was seen, so no belief counts responses of its prompt alone
    (``Belief.num_seen`` is 0). Scales are compared by Laplace's approximation, which takes less time.

    The scales that are given are where a search begins
    (:class:`~ada_lightning.methods.estimators.logit_prior.ScaleSearch`): how much prompts differ, and how soon that
    changes, differs between tasks and models.

    A step costs ``O(num_visits^3)`` for a fit. The fit begins where the last one ended and takes a few sweeps, each as
    long as four Cholesky factors of that size. Each trial of the search, one in 8 to 64 visits, takes three quicker
    fits. Asking about M prompts costs ``O(M num_visits^2)``, besides embedding prompts that were not asked about
    lately. A checkpoint holds ``num_visits H`` floats, and two for every prompt that was sampled or is in the history
    file.

    Time is counted in visits, which are prompts sampled: of a step of 512 prompts all have passed by the next.

    Args:
        embedding: where prompts lie; one that needs no policy, since candidates are asked about before a step.
        num_visits: latest visits that are remembered.
        drift_visits: visits after which the policy has moved so far that ``1/e`` of the drift is left.
        prompt_drift_visits: visits after which ``1/e`` is left of what differs between prompts. Infinite: it stays.
        base_scale: standard deviation of the base, in logits.
        drift_scale: of the drift.
        similar_scale: of what a prompt shares with those like it. 0: nothing.
        own_scale: of what it has for itself. 0: nothing.
        spread_scale: standard deviation of how far the responses of prompts that are alike differ more, or less, than
            their pass rates let expect (:class:`~ada_lightning.methods.estimators.logit_prior.SpreadFit`). It is one of
            p (1 - p), hence 1/4 at most: half as much for all prompts, for good and as the policy moves, and as much
            for what prompts share that are alike and for each of them. Beliefs then keep their means and change in
            strength. 0: nothing.
        scale_width: how far similar, own and drift scale and ``prompt_drift_visits`` may be from what is given:
            standard deviation of their logarithms. 0: as given.
        history_file: known counts to start from: a run's history.json (``{prompt id: [positives, responses]}``) or
            measured pass rates as .parquet (``prompt_id, num_positive, num_samples``); None: none. They count as
            visits of the policy that begins to train, to which the search is applied at once. Of more than
            ``num_visits`` training prompts in it as many are taken, evenly spread.

    Raises:
        ValueError: a value out of its range, an embedding that needs the policy, or a history file that cannot be used;
            all in one message.

    Source:
        Ours. Gaussian process classification: Rasmussen and Williams 2006, chapter 3; one over prompts, with pass rates
        taken as observed logits: VIP, arXiv:2602.01601. The same end with networks: GPS, arXiv:2602.01970 (a latent
        for the policy, a decoder over embeddings), PCL, arXiv:2510.01135 (a value model that reads prompts). What it
        gains: ``python -m research.studies.field.fresh``.
    """

    traits = frozenset({Trait.SHARES_EVIDENCE})

    def __init__(
        self,
        *,
        embedding: PromptEmbedding,
        num_visits: int = 512,
        drift_visits: float = 256.0,
        prompt_drift_visits: float = 1024.0,
        base_scale: float = 2.0,
        drift_scale: float = 1.0,
        similar_scale: float = 2.0,
        own_scale: float = 2.0,
        spread_scale: float = 0.0,
        scale_width: float = 1.0,
        history_file: str | None = None,
    ) -> None:
        scales = {"similar_scale": similar_scale, "own_scale": own_scale, "drift_scale": drift_scale}
        is_width = scale_width == 0 or _LEAST_WIDTH <= scale_width <= _LARGEST_WIDTH
        is_base = 0 < base_scale <= LARGEST_SCALE
        widths = f"0 (scales as given) or from {_LEAST_WIDTH:g} to {_LARGEST_WIDTH:g}"
        errors = unmet(
            (num_visits >= 1, "estimator.num_visits must be at least 1", num_visits),
            (0 < drift_visits < math.inf, "estimator.drift_visits must be positive and finite", drift_visits),
            (prompt_drift_visits > 0, "estimator.prompt_drift_visits must be positive", prompt_drift_visits),
            (is_width, f"estimator.scale_width must be {widths}", scale_width),
            (0 <= spread_scale <= 0.25, "estimator.spread_scale must be from 0 (none) to 0.25", spread_scale),
            (is_base, f"estimator.base_scale must be above 0, and at most {LARGEST_SCALE:g}", base_scale),
            *(
                (0 <= value <= LARGEST_SCALE, f"estimator.{name} must be from 0 (none) to {LARGEST_SCALE:g}", value)
                for name, value in scales.items()
            ),
        )
        if embedding.needs_policy:
            errors.append(f"estimator.embedding: {NO_POLICY}")
        super().__init__(history_file, errors)
        self.embedding = embedding
        self._places = PromptPlaces(embedding)
        self.num_visits = num_visits
        prior = LogitPrior(
            base_scale=float(base_scale),
            drift_visits=float(drift_visits),
            prompt_drift_visits=float(prompt_drift_visits),
            **{name: float(value) for name, value in scales.items()},
        )
        self._scales = ScaleSearch(prior, width=scale_width)
        half = spread_scale / 2
        of_spread = replace(
            prior, base_scale=half, drift_scale=half, similar_scale=spread_scale, own_scale=spread_scale
        )
        self._spread_prior = of_spread if spread_scale else None
        self._spread: SpreadFit | None = None
        self._visits: deque[_Visit] = deque(maxlen=num_visits)
        self._time = 0
        self._fit: ProcessFit | None = None
        self._seen: Placed | None = None

    def check(self) -> None:
        """Check the embedding, where it can be, before any model loads."""
        self.embedding.check()

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Let the embedding learn from the training prompts, where it does, and find out how they lie.

        Then what the history file knows of them is taken over and fitted, unless something was seen already.

        Raises:
            ValueError: the embedding does not give a finite row of the same size for each, or there is a history file
                that knows none of them.
        """
        self._history.check_prompts(prompts, others="the others are predicted from them")
        self._places.learn(prompts)
        if not self._visits:
            self._start_from_history(prompts)

    def recall(self, prompts: Sequence[Prompt]) -> list[Belief]:
        """Return one belief per prompt."""
        if not prompts:
            return []
        now = self._placed(prompts)
        alpha_P, beta_P = self._believed(now)
        if self._spread is not None and self._seen is not None:
            excess_P = self._spread.excess(Between.of(now, self._seen))
            alpha_P, beta_P = with_spread(alpha_P, beta_P, expected_spread(alpha_P, beta_P) + excess_P)
        return [
            Belief(alpha, beta, is_seen=prompt.prompt_id in self._known)
            for prompt, alpha, beta in zip(prompts, alpha_P.tolist(), beta_P.tolist(), strict=True)
        ]

    def _placed(self, prompts: Sequence[Prompt]) -> Placed:
        """Where prompts lie, asked about now."""
        return Placed(
            np.array([prompt.prompt_id for prompt in prompts]),
            np.full(len(prompts), float(self._time)),
            self._places.placed(self._places.rows(prompts)),
        )

    def _believed(self, now: Placed) -> tuple[Array, Array]:
        """Beta distributions by what is known of pass rates alone. Shapes ``(P,)``."""
        prior = self._scales.prior
        mean_P, variance_P = np.zeros(len(now.prompt_ids)), prior.variance(now)
        if self._fit is not None and self._seen is not None:
            with _one_thread():
                mean_P, variance_P = self._fit.predicted(prior.covariance(Between.of(now, self._seen)), variance_P)
        return beta_of_logit(mean_P, variance_P)

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Add the step's counts and fit again. A prompt with two pools counts once, with both."""
        seen = tally(pools)
        prompts = {pool.prompt.prompt_id: pool.prompt for pool in pools if pool.prompt.prompt_id in seen}
        self.learn([(prompts[prompt_id], *counts) for prompt_id, counts in seen.items()])

    def learn(self, visits: Sequence[tuple[Prompt, int, int]]) -> None:
        """Do the same from (prompt, positives, responses), the visits of one step."""
        if not visits:
            return
        prompts = [prompt for prompt, _, _ in visits]
        expected_P = np.full(len(visits), math.nan)
        if self._spread_prior is not None:
            expected_P = expected_spread(*self._believed(self._placed(prompts)))
        rows_PH = self._places.rows(prompts)
        for (prompt, positives, responses), row_H, expected in zip(visits, rows_PH, expected_P.tolist(), strict=True):
            excess = shown_spread(positives, responses) - expected
            self._visits.append(_Visit(prompt.prompt_id, positives, responses, self._time, row_H, excess))
            right, wrong = self._known.get(prompt.prompt_id, (0.0, 0.0))
            self._known[prompt.prompt_id] = _FADING * right + positives, _FADING * wrong + responses - positives
        self._time += len(visits)
        self._fit_again(num_new=len(visits))

    def state_dict(self) -> dict[str, Any]:
        """The visits with their prompts' rows and their sites, how prompts lie, counts, the time and the scales."""
        import torch

        names = ("prompt_id", "positives", "responses", "time", *["excess"] * (self._spread_prior is not None))
        return super().state_dict() | {
            "time": self._time,
            "scales": self._scales.state_dict(),
            **self._places.state_dict(),
            "visits": [[getattr(visit, name) for name in names] for visit in self._visits],
            "rows": torch.from_numpy(np.stack([visit.row_H for visit in self._visits])) if self._visits else None,
            "sites": torch.from_numpy(np.stack(self._fit.sites)) if self._fit is not None else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Rows of other training prompts or of another encoder mean something else: then the visits of prompts that are
        still there are embedded anew, and the others forgotten, with a warning; counts are kept.
        """
        rows = [] if state["rows"] is None else state["rows"].numpy()
        self._time = int(state["time"])
        self._scales.load_state_dict(state["scales"])
        super().load_state_dict(state)
        self._visits.clear()
        visits, is_same = state["visits"], self._places.takes(state)
        if not is_same:
            training = found_by_id(self._places.prompts, [visit[0] for visit in visits])
            visits = [visit for visit in visits if visit[0] in training]
            warnings.warn(
                "estimator: the training prompts or their embedding are not those of the checkpoint: of its "
                f"{len(rows)} visits {len(rows) - len(visits)} are forgotten, those of prompts that are gone",
                RuntimeWarning,
                stacklevel=2,
            )
            rows = self._places.rows([training[visit[0]] for visit in visits]) if visits else []
        for (prompt_id, positives, responses, time, *excess), row_H in zip(visits, rows, strict=True):
            counts = float(positives), float(responses)
            self._visits.append(_Visit(str(prompt_id), *counts, int(time), row_H, *excess))
        is_same &= len(self._visits) == len(rows) and asdict(self._scales.prior) == state["scales"]["prior"]
        if not is_same or state["sites"] is None:  # other rows or scales, fewer visits, or none
            self._fit = None
            self._fit_again(num_new=len(self._visits))
            return
        with _one_thread():
            between = self._compare_visits()
            self._fit = ProcessFit.of(self._scales.prior.covariance(between), Sites(*state["sites"].numpy()))
            self._fit_spread(between)

    def _start_from_history(self, prompts: Sequence[Prompt]) -> None:
        """Take what the history file knows as visits made just before the first step."""
        counts = self._history.counts
        known = list(dict.fromkeys(id_ for id_ in ids_of(prompts) if counts.get(id_, (0.0, 0.0))[1] > 0))
        if not known:
            return
        size = min(len(known), self.num_visits)
        if size < len(known):
            print(f"history: {size} of them are taken (estimator.num_visits), evenly spread", flush=True)
        by_id = found_by_id(prompts, [known[place * len(known) // size] for place in range(size)])
        taken = list(by_id.values())
        self._time = size
        for prompt, row_H in zip(taken, self._places.rows(taken), strict=True):
            self._visits.append(_Visit(prompt.prompt_id, *counts[prompt.prompt_id], self._time, row_H))
        self._fit_again(num_new=size)

    def _fit_again(self, *, num_new: int) -> None:
        """Fit to all visits, the last ``num_new`` of which no fit has seen."""
        if not self._visits:
            self._fit = self._seen = self._spread = None
            return
        positives_V = np.array([visit.positives for visit in self._visits], dtype=float)
        responses_V = np.array([visit.responses for visit in self._visits], dtype=float)
        num_known = len(self._visits) - num_new
        start = logits_V = None
        if self._fit is not None and num_known > 0:
            padding = 0, num_new
            start = Sites(*(np.pad(each_V[-num_known:], padding) for each_V in self._fit.sites))
            logits_V = np.pad(self._fit.logits_V[-num_known:], padding)
        with _one_thread():
            between = self._compare_visits()

            def log_evidence(prior: LogitPrior) -> float:
                nonlocal logits_V  # of a prior that was tried before: nearer than those of the last fit
                fit, evidence = fit_laplace(prior.covariance(between), positives_V, responses_V, start_V=logits_V)
                logits_V = fit.logits_V
                return evidence

            self._scales.improve(self._time, log_evidence)
            self._fit = self._settled(self._scales.prior.covariance(between), positives_V, responses_V, start)
            self._fit_spread(between)

    def _fit_spread(self, between: Between) -> None:
        if self._spread_prior is not None:
            self._spread = SpreadFit.of(self._spread_prior, np.array([visit.excess for visit in self._visits]), between)

    def _settled(self, covariance_VV: Array, positives_V: Array, responses_V: Array, start: Sites | None) -> ProcessFit:
        """Return what is believed, by Laplace's approximation where expectation propagation does not settle."""
        if start is not None and (found := fit_moments(covariance_VV, positives_V, responses_V, start=start)):
            return found
        laplace, _ = fit_laplace(covariance_VV, positives_V, responses_V)
        return fit_moments(covariance_VV, positives_V, responses_V, start=laplace.sites) or laplace

    def _compare_visits(self) -> Between:
        self._seen = Placed(
            np.array([visit.prompt_id for visit in self._visits]),
            np.array([visit.time for visit in self._visits], dtype=float),
            self._places.placed(np.stack([visit.row_H for visit in self._visits])),
        )
        return Between.of(self._seen, self._seen)


@cache
def _blas() -> Any:
    return ThreadpoolController()


def _one_thread() -> AbstractContextManager[object]:
    """Compute in this thread: sharing out so little work, with cores that are busy, costs far more than it saves."""
    limit: AbstractContextManager[object] = _blas().limit(limits=1, user_api="blas")
    return limit
