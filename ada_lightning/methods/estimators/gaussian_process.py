"""VIP's predictor: a Gaussian process over prompt embeddings (arXiv:2602.01601, section on success prediction).

Equation: ``p_q = sigmoid(g(x_q))``, ``g ~ GP(m, K)``, ``K(x, x') = exp(-|x - x'|^2 / (2 h^2))``. After a step with
    prompts B and observed logits ``g_B``: ``m_rest += K_(rest,B) K_(B,B)^-1 (g_B - m_B)``, then ``m_B = g_B``.
Claim: prompts never sampled are predicted from those that were, and the mean follows the policy from step to step.
Assumption: prompts near each other in the embedding have like pass rates; the covariance stays K at every step.
Degenerate: before the first step, and far from all prompts seen, the prediction is the prior's, ``sigmoid(m_1)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ada_lightning.core.checks import refuse, unmet
from ada_lightning.core.options import option
from ada_lightning.core.protocols import PassRateEstimator, PromptEmbedding, Represent, Trait
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.estimators.counting import tally
from ada_lightning.methods.estimators.prompt_places import distinct, embedded

_JITTER = 1e-4
"""Added to the diagonal of K_BB, as in the public code: near neighbours make it singular."""


@option("estimator", "gaussian_process", choices={"embedding": "policy", "length_scale": "median"})
class GaussianProcessEstimator(PassRateEstimator):
    """A Gaussian process over prompt embeddings (VIP, arXiv:2602.01601): predicts new prompts from their neighbours.

    An exact solve per step and no training. The paper takes observations for certain;
    ``estimator.noise=1 estimator.logit_eps=0.055`` trusts 8 responses less, and predicts far better in simulation.
    Watch ``estimator/mae``.

    What is known of a prompt not met yet is ``m_1 + sum_q k(x, x_q) w_q``, where ``w_q`` adds up the solutions of all
    steps: the same numbers as carrying a mean for the whole training set, and only prompts met need an embedding. Each
    is embedded once.

    The defaults are the paper's. Interpolating what a few responses say can predict worse than 1/2 for all
    (``tests/unit/methods/estimators/test_gaussian_process.py``: a mean absolute error of 0.38 against 0.24 with 8
    responses each); ``noise=1`` with ``logit_eps=1/18`` (0.055) leaves 0.05 there.

    A step of P prompts costs ``O(P^3)`` and, with N prompts met, ``O(N P H)``; a checkpoint holds ``N H`` floats.

    Args:
        embedding: where prompts lie.
        length_scale: h, from the distances between different prompts of the first step.
        prior_mean: logit of the pass rate expected of a prompt without neighbours: 0 in the paper, -5 in its trainer.
        noise: variance of an observed logit. 0 is the paper: after a visit a prompt's mean is what was observed. Above
            0 it lies between that and what its neighbours say.
        logit_eps: pass rates observed keep this distance from 0 and 1 before the logit, 1e-6 in the public code: a
            group of one kind then counts as a logit of 13.8, whatever its size. ``1 / (2n + 2)`` is a milder choice.
        strength: responses that a prediction counts as, where it is used as a prior: ``alpha + beta`` of the belief
            (ours).

    Raises:
        ValueError: a value out of its range; all in one message.

    Source:
        HieuNT91/VIP at 4a82f581: ``src/vip/success_rate_prediction/gaussian_process.py``, ``reuse_mean`` and not
        ``reuse_covariance``.
    """

    traits = frozenset({Trait.SHARES_EVIDENCE})

    def __init__(
        self,
        *,
        embedding: PromptEmbedding,
        length_scale: Callable[[Tensor], float],
        prior_mean: float = 0.0,
        noise: float = 0.0,
        logit_eps: float = 1e-6,
        strength: float = 8.0,
    ) -> None:
        refuse(
            *unmet(
                (math.isfinite(prior_mean), "estimator.prior_mean must be finite", prior_mean),
                (0 <= noise < math.inf, "estimator.noise must be 0 (none) or positive, and finite", noise),
                (0 < logit_eps < 0.5, "estimator.logit_eps must be in (0, 0.5)", logit_eps),
                (0 < strength < math.inf, "estimator.strength must be positive and finite", strength),
            )
        )
        self.embedding = embedding
        self.length_scale = length_scale
        self.prior_mean = float(prior_mean)
        self.noise = float(noise)
        self.logit_eps = logit_eps
        self.strength = strength
        self._scale = 0.0  # not known yet
        self._index: dict[str, int] = {}
        self._embeddings_NH = torch.empty(0, 0)
        self._means_N = torch.empty(0, dtype=torch.float64)
        self._weights_N = torch.empty(0, dtype=torch.float64)

    def check(self) -> None:
        """Check the embedding, where it can be, before any model loads."""
        self.embedding.check()

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Let the embedding learn from the training prompts, where it does.

        Raises:
            ValueError: it cannot.
        """
        self.embedding.fit(prompts)

    def predict(self, prompts: Sequence[Prompt], represent: Represent) -> list[Belief]:
        """Embed prompts not met before, and return one belief per prompt.

        Raises:
            ValueError: embeddings are not finite, not one per prompt, or of another size than before.
        """
        self._embed([prompt for prompt in distinct(prompts) if prompt.prompt_id not in self._index], represent)
        rates = self._means_N[[self._index[prompt.prompt_id] for prompt in prompts]].sigmoid()
        rates = rates.clamp(self.logit_eps, 1.0 - self.logit_eps)
        return [Belief(rate * self.strength, (1.0 - rate) * self.strength) for rate in rates.tolist()]

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Move the mean to what the step observed. A prompt with two pools counts once, with both.

        Raises:
            ValueError: a pool's prompt was never predicted, so its embedding is not known.
        """
        unknown = [pool.prompt.prompt_id for pool in pools if pool.prompt.prompt_id not in self._index]
        if unknown:
            raise ValueError(
                f"no embedding of prompts {unknown}: update() takes pools of the prompts last given to predict()"
            )
        observed = {
            self._index[prompt_id]: positives / responses for prompt_id, (positives, responses) in tally(pools).items()
        }
        if observed:
            self._condition(list(observed), torch.tensor(list(observed.values()), dtype=torch.float64))

    def state_dict(self) -> dict[str, Any]:
        """Embeddings, means and weights of the prompts met, and the length scale."""
        return {
            "prompt_ids": list(self._index),
            "embeddings": self._embeddings_NH.clone(),
            "means": self._means_N.clone(),
            "weights": self._weights_N.clone(),
            "length_scale": self._scale,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: it was counted with another length scale than the fixed one given.
        """
        saved, wanted = float(state["length_scale"]), self.length_scale
        if saved and isinstance(wanted, FixedLengthScale) and saved != wanted.value:
            raise ValueError(
                f"estimator.length_scale.value = {wanted.value}, but this run has counted with {saved}; continue with "
                f"estimator.length_scale.value={saved} or start a new run"
            )
        self._scale = saved
        self._index = {prompt_id: index for index, prompt_id in enumerate(state["prompt_ids"])}
        self._embeddings_NH = state["embeddings"].clone()
        self._means_N = state["means"].clone()
        self._weights_N = state["weights"].clone()

    def _embed(self, prompts: Sequence[Prompt], represent: Represent) -> None:
        """Add prompts to those met, with the mean that all earlier steps have left them."""
        if not prompts:
            return
        num_columns = self._embeddings_NH.shape[1] if self._index else None
        rows_PH = embedded(self.embedding, prompts, represent, num_columns=num_columns)
        means_P = torch.full((len(prompts),), self.prior_mean, dtype=torch.float64)
        if self._index:
            means_P += self._kernel(rows_PH, self._embeddings_NH) @ self._weights_N
        self._embeddings_NH = torch.cat([self._embeddings_NH, rows_PH]) if self._index else rows_PH.clone()
        self._means_N = torch.cat([self._means_N, means_P])
        self._weights_N = torch.cat([self._weights_N, torch.zeros_like(means_P)])
        for prompt in prompts:
            self._index[prompt.prompt_id] = len(self._index)

    def _condition(self, seen: list[int], rates_B: Tensor) -> None:
        self._set_scale()
        logits_B = rates_B.clamp(self.logit_eps, 1.0 - self.logit_eps).logit()
        kernel_NB = self._kernel(self._embeddings_NH, self._embeddings_NH[seen])
        diagonal_BB = torch.eye(len(seen), dtype=torch.float64) * (self.noise + _JITTER)
        factor_BB = torch.linalg.cholesky(kernel_NB[seen] + diagonal_BB)
        residual_B1 = (logits_B - self._means_N[seen])[:, None]
        weights_B = torch.cholesky_solve(residual_B1, factor_BB)[:, 0]
        self._means_N += kernel_NB @ weights_B
        self._weights_N[seen] += weights_B
        if self.noise == 0:  # what the jitter has left
            self._means_N[seen] = logits_B

    def _set_scale(self) -> None:
        """Fix the length scale once two prompts differ; until then every kernel is 1 whatever it is."""
        if self._scale:
            return
        distances_M = torch.pdist(self._embeddings_NH.double())
        distances_M = distances_M[distances_M > 0]
        if len(distances_M):
            self._scale = float(self.length_scale(distances_M))

    def _kernel(self, rows_MH: Tensor, columns_NH: Tensor) -> Tensor:
        """``exp(-distance^2 / (2 h^2))``. Shape ``(M, N)``, float64."""
        distances_MN = torch.cdist(rows_MH.double(), columns_NH.double())
        return torch.exp(-0.5 * (distances_MN / (self._scale or 1.0)).square())


@option("estimator/length_scale", "median")
class MedianDistance:
    """Median distance between the prompts of the first step that has two different ones.

    Source:
        VIP, arXiv:2602.01601, takes it over the whole training set; one step is a sample of that, and nothing beyond
        the step's own prompts needs an embedding.
    """

    def __call__(self, distances_M: Tensor) -> float:
        """Return the median of distances above 0; there is at least one."""
        return float(distances_M.median())


@option("estimator/length_scale", "fixed")
class FixedLengthScale:
    """A length scale given beforehand.

    Args:
        value: in the unit of the embeddings' distance. Normalised embeddings lie within 2 of each other; the public
            code of VIP has 0.4, at another commit 0.27, for those of ``all-MiniLM-L6-v2``.

    Raises:
        ValueError: ``value`` is not positive and finite.
    """

    def __init__(self, *, value: float = 0.4) -> None:
        if not 0 < value < math.inf:
            raise ValueError(f"estimator.length_scale.value must be positive and finite; got {value}")
        self.value = float(value)

    def __call__(self, distances_M: Tensor) -> float:
        """Return it, whatever the distances."""
        return self.value


@option("estimator/embedding", "policy")
class PolicyEmbedding(PromptEmbedding):
    """The policy's last hidden state after a prompt's last token, taken at the prompt's first visit and kept.

    Whoever keeps it has it frozen, but from the policy of that moment: prompts of a run's first epoch are embedded by
    policies that differ by the updates between them. A sentence encoder does not move
    (:class:`~ada_lightning.methods.estimators.sentence_encoder.SentenceEncoder`).
    """

    needs_policy = True

    def __call__(self, prompts: Sequence[Prompt], represent: Represent) -> Tensor:
        """Ask the policy. Shape ``(P, H)``, float32."""
        return represent(prompts)
