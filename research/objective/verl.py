"""verl's own estimators and policy loss, asked for batches of groups."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from ada_lightning.objective.batch import Group
from ada_lightning.objective.files import read_file
from ada_lightning.objective.readers.verl import AGGREGATIONS, ESTIMATORS, TRAINER
from research.objective.check import Combination
from research.objective.rows import mask_of, one_a_row, rewards_of, split
from research.objective.source import file_of

SIZE = 3
LOSS_MODES = ("vanilla", "gspo", "cispo", "gpg", "sapo", "geo_mean")
"""Checked with the default aggregation; all aggregations are checked with the first."""


def combinations() -> list[Combination]:
    """All estimators without a critic, scaled and not, with every aggregation; further losses with one estimator."""
    scaled = [(name, True) for name in ESTIMATORS] + [(name, False) for name in ("grpo", "grpo_vectorized", "gdpo")]
    modes = itertools.product(LOSS_MODES[1:], ("token-mean", "seq-mean-token-mean"))
    return [
        *(_combination(name, norm, "vanilla", mode) for (name, norm) in scaled for mode in AGGREGATIONS),
        *(_combination("grpo", True, loss, mode) for loss, mode in modes),
    ]


def _combination(estimator: str, norm: bool, loss: str, aggregation: str) -> Combination:
    settings = {
        "algorithm.adv_estimator": estimator,
        "algorithm.norm_adv_by_std_in_grpo": norm,
        "actor_rollout_ref.actor.policy_loss.loss_mode": loss,
        "actor_rollout_ref.actor.loss_agg_mode": aggregation,
        "actor_rollout_ref.rollout.n": SIZE,
    }
    return Combination(settings, Functions(estimator, norm, loss, aggregation))


def options() -> Mapping[str, Any]:
    """Return every key that Hydra composes, with its default. More can be added by ``+key=value``."""
    found = dict(read_file(file_of("verl", "trainer/config/_generated_ppo_trainer.yaml")).settings)
    found["actor_rollout_ref.rollout.response_length"] = None  # the key that it refers to is read
    return found | {key: value for key, value in TRAINER.defaults.items() if key not in found}


class _Config(SimpleNamespace):
    """Settings that verl asks by attribute and by ``get``."""

    def get(self, key: str, default: Any = None) -> Any:
        return getattr(self, key, default)


def _actor_config() -> Any:
    from verl.workers.config import ActorConfig

    return ActorConfig(strategy="fsdp", rollout_n=SIZE, ppo_micro_batch_size_per_gpu=1, ppo_mini_batch_size=2)


@dataclass(frozen=True)
class Functions:
    """The functions behind one combination."""

    estimator: str
    norm: bool
    loss: str
    aggregation: str

    def advantages(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return the advantage of each response."""
        rows, _ = self._advantages(groups)
        return split([float(row[0]) for row in rows], groups)

    def factors(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return minus the gradient of the real loss by the log-probability of each token."""
        import torch
        from verl.trainer.ppo.core_algos import get_policy_loss_fn

        rows, mask = self._advantages(groups)
        logprobs = torch.full_like(rows, -1.0, requires_grad=True)
        counts = {"batch_num_tokens": mask.sum(), "global_batch_size": len(mask), "dp_size": 1}
        config = _actor_config()
        config.global_batch_info.update(counts)
        loss, _ = get_policy_loss_fn(self.loss)(
            old_log_prob=logprobs.detach(),
            log_prob=logprobs,
            advantages=rows,
            response_mask=mask,
            loss_agg_mode=self.aggregation,
            config=config,
        )
        loss.backward()
        return split(one_a_row(logprobs.grad, mask), groups)

    def rounding(self, group: Group) -> float:
        """Return the largest advantage in float32."""
        import torch

        if self.estimator in ("gdpo", "reinforce_plus_plus", "reinforce_plus_plus_baseline"):
            return 0.0  # whitened
        rows, _ = self._advantages([group, Group((1.0, 0.0))], torch.float32)
        return float(rows[: len(group.rewards)].abs().max())

    def _advantages(self, groups: Sequence[Group], dtype: Any = None) -> tuple[Any, Any]:
        import torch
        from verl.trainer.ppo.core_algos import get_adv_estimator_fn

        dtype = dtype or torch.float64
        mask = mask_of(groups, dtype)
        rewards = torch.zeros_like(mask)
        rewards[torch.arange(len(mask)), mask.sum(dim=1).long() - 1] = rewards_of(groups, dtype)
        uids = np.array([str(index) for index, group in enumerate(groups) for _ in group.rewards], dtype=object)
        config = _Config(gamma=1.0, norm_adv_by_std_in_grpo=self.norm)
        options: Mapping[str, Any] = {"config": config}
        if self.estimator in ("grpo", "grpo_vectorized", "gdpo"):
            options = {"norm_adv_by_std_in_grpo": self.norm}
        found, _ = get_adv_estimator_fn(self.estimator)(
            token_level_rewards=rewards, response_mask=mask, index=uids, **options
        )
        return found.to(dtype), mask
