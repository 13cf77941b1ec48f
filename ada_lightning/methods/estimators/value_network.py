"""Predicts pass rates from the policy's hidden states, so that unseen prompts profit from seen ones."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from ada_lightning.core.checks import refuse, unmet
from ada_lightning.core.options import option
from ada_lightning.core.protocols import PassRateEstimator, Represent, Trait
from ada_lightning.core.records import Belief, Prompt, ResponsePool

_MAX_DEVIATION = 8.0
"""Standard deviations that a feature is clipped to: one that hardly ever moved may jump once the policy changes."""
_MARGIN = 1e-3
"""Distance that predictions keep from 0 and 1, where a Beta belief ends."""


@option("estimator", "value_network")
class ValueNetworkEstimator(PassRateEstimator):
    """A small network on the policy's frozen representation of a prompt (arXiv:2510.04996v3, Est).

    It is trained a little after every step. The head learns from a bounded replay of recent pools, by their binomial
    likelihood. For the first ``warmup_steps`` updates every prompt gets the same prediction, the share of positives in
    the replay, and so the same number of responses from a sampler that divides by pass rates. No gradient reaches the
    policy.

    Args:
        width: hidden units of the head.
        learning_rate: of the head's AdamW.
        weight_decay: of the head's AdamW.
        replay_size: recent pools that are kept to learn from; each keeps hidden size x 4 bytes, also in checkpoints.
        batch_size: pools per optimiser step of the head.
        epochs_per_update: passes over the replay after each rollout step.
        warmup_steps: updates before predictions differ between prompts.
        strength: responses that a prediction counts as, where it is used as a prior: ``alpha + beta`` of the belief.
        seed: of the head's initial weights and the order of its examples.

    Raises:
        ValueError: a value out of its range; all in one message.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, section on Est: a lightweight value network that predicts pass rates.
        Architecture, loss and settings are ours: the paper gives none, and there is no public code.
    """

    traits = frozenset({Trait.SHARES_EVIDENCE})

    def __init__(
        self,
        *,
        width: int = 64,
        learning_rate: float = 5e-4,
        weight_decay: float = 0.01,
        replay_size: int = 1024,
        batch_size: int = 64,
        epochs_per_update: int = 2,
        warmup_steps: int = 5,
        strength: float = 8.0,
        seed: int = 0,
    ) -> None:
        refuse(
            *unmet(
                (width >= 1, "estimator.width must be at least 1", width),
                (replay_size >= 1, "estimator.replay_size must be at least 1", replay_size),
                (batch_size >= 1, "estimator.batch_size must be at least 1", batch_size),
                (epochs_per_update >= 1, "estimator.epochs_per_update must be at least 1", epochs_per_update),
                (0 < learning_rate < math.inf, "estimator.learning_rate must be positive and finite", learning_rate),
                (0 < strength < math.inf, "estimator.strength must be positive and finite", strength),
                (0 <= weight_decay < math.inf, "estimator.weight_decay must not be negative", weight_decay),
                (warmup_steps >= 0, "estimator.warmup_steps must not be negative", warmup_steps),
            )
        )
        self.width = width
        self.replay_size = replay_size
        self.batch_size = batch_size
        self.epochs_per_update = epochs_per_update
        self.warmup_steps = warmup_steps
        self.strength = strength
        self.num_updates = 0
        self._generator = torch.Generator().manual_seed(seed)
        self._new_head = partial(
            PassRateHead,
            width=width,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            generator=self._generator,
        )
        self._head: PassRateHead | None = None
        self._features_NH = torch.empty(0, 0)
        self._positives_N = torch.empty(0)
        self._sizes_N = torch.empty(0)
        self._predicted: dict[str, Tensor] = {}

    def predict(self, prompts: Sequence[Prompt], represent: Represent) -> list[Belief]:
        """Represent the prompts, remember that for :meth:`update`, and return one belief per prompt.

        Raises:
            ValueError: the representations are not finite, or of another size than before.
        """
        features_PH = represent(prompts).detach().to("cpu", torch.float32)
        self._check_features(features_PH)
        self._predicted = {prompt.prompt_id: row for prompt, row in zip(prompts, features_PH, strict=True)}
        if self._head is None or self.num_updates < self.warmup_steps:
            means = [self._pooled_rate()] * len(prompts)
        else:
            means = self._head.pass_rates(features_PH).tolist()
        return [Belief(mean * self.strength, (1 - mean) * self.strength) for mean in means]

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Add the step's pools to the replay and train the head on it. A pool without evidence adds nothing.

        Raises:
            ValueError: a pool's prompt is not among those last predicted, so its representation is not known.
        """
        unknown = [pool.prompt.prompt_id for pool in pools if pool.prompt.prompt_id not in self._predicted]
        if unknown:
            raise ValueError(
                f"no representation of prompts {unknown}: update() takes pools of the prompts last given to predict()"
            )
        evident = [pool for pool in pools if pool.num_sampled]
        if evident:
            self._remember(evident)
            self._head_of(self._features_NH.shape[1]).fit(
                self._features_NH,
                self._positives_N,
                self._sizes_N,
                num_epochs=self.epochs_per_update,
                batch_size=self.batch_size,
            )
        self._predicted = {}
        self.num_updates += 1

    def state_dict(self) -> dict[str, Any]:
        """Head, replay and generator; what is between :meth:`predict` and :meth:`update` is not kept."""
        return {
            "num_updates": self.num_updates,
            "generator": self._generator.get_state(),
            "head": None if self._head is None else self._head.state_dict(),
            "features": self._features_NH.clone(),
            "positives": self._positives_N.clone(),
            "sizes": self._sizes_N.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: the head in it has another width than this one.
        """
        self.num_updates = int(state["num_updates"])
        self._features_NH = state["features"].clone()
        self._positives_N = state["positives"].clone()
        self._sizes_N = state["sizes"].clone()
        self._head = None
        if state["head"] is not None:
            saved_width, num_features = state["head"]["network"]["0.weight"].shape
            if saved_width != self.width:
                raise ValueError(
                    f"estimator.width = {self.width}, but this run's head has {saved_width} hidden units; "
                    f"continue with estimator.width={saved_width} or start a new run"
                )
            self._head_of(num_features).load_state_dict(state["head"])
        self._generator.set_state(state["generator"])  # last: a new head has drawn its initial weights from it

    def _check_features(self, features_PH: Tensor) -> None:
        num_features = features_PH.shape[1]
        if self._head is not None and num_features != self._head.num_features:
            raise ValueError(
                f"representations have {num_features} features, but the head was made for {self._head.num_features}: "
                "is this the checkpoint of another model?"
            )
        if not bool(features_PH.isfinite().all()):
            raise ValueError("the policy's representation of a prompt is not finite: are its weights?")

    def _pooled_rate(self) -> float:
        """Share of positives in the replay, between 1/2 where it is empty and the truth where it is not."""
        return (float(self._positives_N.sum()) + 1) / (float(self._sizes_N.sum()) + 2)

    def _remember(self, pools: Sequence[ResponsePool]) -> None:
        features_PH = torch.stack([self._predicted[pool.prompt.prompt_id] for pool in pools])
        positives_P = torch.tensor([float(pool.num_positive) for pool in pools])
        sizes_P = torch.tensor([float(pool.num_sampled) for pool in pools])
        rows_NH = torch.cat([self._features_NH, features_PH]) if len(self._features_NH) else features_PH
        self._features_NH = rows_NH[-self.replay_size :]
        self._positives_N = torch.cat([self._positives_N, positives_P])[-self.replay_size :]
        self._sizes_N = torch.cat([self._sizes_N, sizes_P])[-self.replay_size :]
        self._head_of(features_PH.shape[1]).observe(features_PH)

    def _head_of(self, num_features: int) -> PassRateHead:
        """Return the head, made at first use: only then is the size of a representation known."""
        if self._head is None:
            self._head = self._new_head(num_features, base_rate=self._pooled_rate())
        return self._head


class PassRateHead:
    """Standardise, Linear, GELU, Linear: the logit of a pass rate. CPU, float32; all randomness is its own.

    The last layer starts at 0 with the base rate as bias, so an untrained head predicts the base rate everywhere.

    Args:
        num_features: size of a representation (H).
        width: hidden units.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        base_rate: pass rate to start from, in (0, 1).
        generator: of the initial weights and of the order of examples.
    """

    def __init__(
        self,
        num_features: int,
        *,
        width: int,
        learning_rate: float,
        weight_decay: float,
        base_rate: float,
        generator: torch.Generator,
    ) -> None:
        # skip_init: Linear's own initial values would be drawn from the global generator.
        first = nn.utils.skip_init(nn.Linear, num_features, width)
        last = nn.utils.skip_init(nn.Linear, width, 1)
        with torch.no_grad():
            first.weight.normal_(std=1 / math.sqrt(num_features), generator=generator)
            first.bias.zero_()
            last.weight.zero_()
            last.bias.fill_(math.log(base_rate / (1 - base_rate)))
        self.num_features = num_features
        self.width = width
        self._network = nn.Sequential(first, nn.GELU(), last)
        self._optimizer = torch.optim.AdamW(self._network.parameters(), lr=learning_rate, weight_decay=weight_decay)
        self._generator = generator
        self._num_observed = 0
        self._mean_H = torch.zeros(num_features, dtype=torch.float64)
        self._squared_deviation_H = torch.zeros(num_features, dtype=torch.float64)

    def observe(self, features_PH: Tensor) -> None:
        """Add representations to the mean and spread that features are standardised with.

        Source:
            Chan, Golub and LeVeque 1979: merging the moments of two samples, which does not cancel.
        """
        batch_PH = features_PH.double()
        mean_H = batch_PH.mean(0)
        total = self._num_observed + len(batch_PH)
        shift_H = mean_H - self._mean_H
        self._squared_deviation_H += (batch_PH - mean_H).square().sum(0)
        self._squared_deviation_H += shift_H.square() * self._num_observed * len(batch_PH) / total
        self._mean_H += shift_H * len(batch_PH) / total
        self._num_observed = total

    def fit(
        self, features_NH: Tensor, positives_N: Tensor, sizes_N: Tensor, *, num_epochs: int, batch_size: int
    ) -> None:
        """Raise the binomial likelihood of the outcomes, per response.

        Args:
            features_NH: representations. Shape ``(N, H)``, float32.
            positives_N: positives of each pool. Shape ``(N,)``, float32.
            sizes_N: responses of each pool, at least 1. Shape ``(N,)``, float32.
            num_epochs: passes over them.
            batch_size: pools per optimiser step.
        """
        inputs_NH = self._standardized(features_NH)
        rates_N = positives_N / sizes_N
        mean_size = sizes_N.mean()
        with torch.enable_grad(), _one_thread():
            for _ in range(num_epochs):
                for index_M in torch.randperm(len(rates_N), generator=self._generator).split(batch_size):
                    logits_M = self._network(inputs_NH[index_M])[:, 0]
                    # Divided by the mean size of all pools: within a small batch its own would be a ratio.
                    weights_M = sizes_N[index_M] / mean_size
                    loss = binary_cross_entropy_with_logits(logits_M, rates_N[index_M], weight=weights_M)
                    self._optimizer.zero_grad()
                    loss.backward()
                    self._optimizer.step()
        self._optimizer.zero_grad()

    @torch.no_grad()
    def pass_rates(self, features_PH: Tensor) -> Tensor:
        """Predict. Shape ``(P,)``, float32, inside (0, 1)."""
        logits_P = self._network(self._standardized(features_PH))[:, 0]
        return logits_P.sigmoid().clamp(_MARGIN, 1 - _MARGIN)

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimiser moments and feature statistics. The generator belongs to whoever gave it."""
        return copy.deepcopy(
            {
                "network": dict(self._network.state_dict()),
                "optimizer": self._optimizer.state_dict()["state"],
                "num_observed": self._num_observed,
                "mean": self._mean_H,
                "squared_deviation": self._squared_deviation_H,
            }
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`. Settings of the optimiser stay those of the constructor."""
        state = copy.deepcopy(dict(state))
        self._network.load_state_dict(state["network"])
        settings = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": state["optimizer"], "param_groups": settings})
        self._num_observed = state["num_observed"]
        self._mean_H = state["mean"]
        self._squared_deviation_H = state["squared_deviation"]

    def _standardized(self, features_NH: Tensor) -> Tensor:
        variance_H = self._squared_deviation_H / max(self._num_observed, 1)
        std_H = variance_H.sqrt().clamp_min(1e-6)
        return ((features_NH - self._mean_H) / std_H).clamp(-_MAX_DEVIATION, _MAX_DEVIATION).float()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in this thread alone.

    Sharing out so little work saves nothing, and where other programs keep the cores busy, waiting for the other
    threads makes an update 5 to 40 times slower (measured with 2 threads on 2 cores).
    """
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
