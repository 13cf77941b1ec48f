"""What of verl's configuration keeps the update from being the sum of advantage times log-probability."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ada_lightning.adapters.verl.plugin import NAME


def refusals(config: Any, *, max_kept: int) -> Iterator[str]:
    """Yield a sentence for each setting with which rows would mean something else.

    Args:
        config: verl's whole one.
        max_kept: most rows of a prompt.
    """
    algorithm, actor, rollout = config.algorithm, config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    if algorithm.adv_estimator != NAME:
        yield f"algorithm.adv_estimator={algorithm.adv_estimator} would make advantages of advantages; use {NAME}"
    if algorithm.use_kl_in_reward:
        yield "algorithm.use_kl_in_reward=True adds to rewards that are advantages; use False"
    if algorithm.get("filter_groups") and algorithm.filter_groups.enable:
        yield "algorithm.filter_groups.enable=True drops groups by rewards that are advantages; use False"
    if actor.loss_agg_mode != "token-sum":
        yield f"actor.loss_agg_mode={actor.loss_agg_mode} divides by what was kept; rows are divided already: token-sum"
    if rollout.n < max_kept:
        yield f"rollout.n={rollout.n} is less than the {max_kept} rows that a prompt may keep"
    if actor.ppo_mini_batch_size < config.data.train_batch_size:
        yield (
            f"actor.ppo_mini_batch_size={actor.ppo_mini_batch_size} is less than data.train_batch_size="
            f"{config.data.train_batch_size}: a rollout would make several updates, of more rows or fewer"
        )
    reward_model = config.reward.reward_model
    if reward_model.enable and not reward_model.enable_resource_pool:
        yield (
            "reward.reward_model.enable=True without resources of its own gives rewards when all responses are drawn, "
            "and the rule needs them meanwhile; use reward.reward_model.enable_resource_pool=True, or a reward function"
        )
    if not config.trainer.use_v1:
        yield "trainer.use_v1=False has no agent loop that this fits; use True"


def approximations(config: Any) -> Iterator[str]:
    """Yield a reason for each setting that bends the update from the statement, without making it meaningless."""
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    if actor.ppo_epochs > 1:
        yield f"actor.ppo_epochs={actor.ppo_epochs}: updates of one rollout after the first are off-policy"
    if actor.use_kl_loss or actor.entropy_coeff:
        yield f"actor.use_kl_loss={actor.use_kl_loss}, actor.entropy_coeff={actor.entropy_coeff} add terms to the loss"
    if actor.policy_loss.loss_mode != "vanilla":
        yield f"actor.policy_loss.loss_mode={actor.policy_loss.loss_mode} is not a sum of ratio times advantage"
    if config.trainer.v1.trainer_mode != "sync":
        yield f"trainer.v1.trainer_mode={config.trainer.v1.trainer_mode} trains on what finished first, and off-policy"
    if (rollout.temperature, rollout.top_p, rollout.top_k) != (1.0, 1, -1):
        yield (
            f"rollout.temperature={rollout.temperature}, top_p={rollout.top_p}, top_k={rollout.top_k}: responses come "
            "from another distribution than the one that is trained"
        )
    correction = config.algorithm.get("rollout_correction")
    if correction and (correction.get("rollout_rs") or correction.get("rollout_is")):
        yield "algorithm.rollout_correction weighs tokens by the engine's ratio, or drops by it, long responses first"
