"""Finds settings of verl with which the update is not what the statement says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omegaconf import OmegaConf

from ada_lightning.adapters.verl.plugin import NAME
from ada_lightning.config.problems import ConfigError

# isort: split
from verl.trainer.ppo.core_algos import get_adv_estimator_fn

OWN = {"id_column": None, "timeout_s": 3600.0, "actor": None}
"""Settings next to ``method`` that are not the method's, with their defaults: see ``docs/verl.md``."""
SHARED = {
    "data.custom_cls": ("pkg://ada_lightning.adapters.verl.memory", "AdaDataset"),
    "trainer.v1.sampler.custom_sampler": ("pkg://ada_lightning.adapters.verl.buffer", "AdaReplayBuffer"),
}
"""Path and name of the two classes that share a memory, by verl's key. A file's path would load them twice."""


def settings_of(config: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return method, its settings and those of :data:`OWN`: ``+actor_rollout_ref.rollout.custom.ada.method=...``.

    Raises:
        ConfigError: there is no method, or a setting of :data:`OWN` that cannot work.
    """
    custom = OmegaConf.to_container(config.actor_rollout_ref.rollout).get("custom") or {}  # type: ignore[union-attr]
    settings: dict[str, Any] = dict(custom.get("ada") or {})
    if "method" not in settings:
        raise ConfigError(["no method: give +actor_rollout_ref.rollout.custom.ada.method=ada_seq_balance, or another"])
    own = {name: settings.pop(name, default) for name, default in OWN.items()}
    if isinstance(own["timeout_s"], bool) or not isinstance(own["timeout_s"], int | float) or own["timeout_s"] <= 0:
        raise ConfigError([f"custom.ada.timeout_s must be a number of seconds above 0; got {own['timeout_s']!r}"])
    return settings.pop("method"), settings, own


def has_memory(config: Any) -> bool:
    """Whether data set or replay buffer is one with a memory."""
    return any(_given(config, key)[1] == name for key, (_, name) in SHARED.items())


def _given(config: Any, key: str) -> tuple[Any, Any]:
    node = OmegaConf.select(config, key) or {}
    return node.get("path"), node.get("name")


def draws_by_rule(config: Any) -> bool:
    """Whether workers draw as a rule says while responses come in, instead of a number that is fixed beforehand."""
    manager = config.actor_rollout_ref.rollout.get("agent", {}).get("agent_loop_manager_class") or ""
    return str(manager).endswith(".AdaAgentLoopManager")


def check(config: Any, *, max_kept: int) -> list[str]:
    """Compare verl's configuration with what the statement assumes.

    Args:
        config: verl's whole one.
        max_kept: most rows of a prompt.

    Returns:
        Why the update is approximate; empty where it is exact.

    Raises:
        ConfigError: rows would mean something else, or the plug-in was not loaded, of which verl itself says nothing.
    """
    problems = list(_refusals(config, max_kept=max_kept))
    if has_memory(config):
        problems += memory_refusals(config)
    try:
        get_adv_estimator_fn(NAME)
    except ValueError:
        problems.append(
            "verl has not loaded ada_lightning's plug-in: install this package, and leave VERL_USE_EXTERNAL_PLUGINS at "
            "auto; import ada_lightning.adapters.verl.plugin says what is wrong with it"
        )
    if problems:
        raise ConfigError(problems)
    return list(_approximations(config))


def memory_refusals(config: Any) -> Iterator[str]:
    """Yield a sentence for each setting with which data set and replay buffer cannot share one memory."""
    data, trainer = config.data, config.trainer
    sampler = trainer.v1.get("sampler") or {}
    for key, wanted in SHARED.items():
        if (given := _given(config, key)) != wanted:
            yield (
                f"{key} is {given[0]}, {given[1]}, but data set and replay buffer share one memory: give "
                f"{key}.path={wanted[0]} {key}.name={wanted[1]}"
            )
    if data.get("dataloader_num_workers", 8) != 0:
        yield (
            f"data.dataloader_num_workers={data.get('dataloader_num_workers', 8)} asks copies of the data set for "
            "prompts, which know nothing of what was learned; use 0"
        )
    mode = trainer.v1.trainer_mode
    if mode != "sync":
        yield (
            f"trainer.v1.trainer_mode={mode} asks for prompts before the last ones are learned from, and trains on "
            "what finished first; with a memory use sync"
        )
    elif (every := (trainer.v1.get("sync") or {}).get("parameter_sync_step", 1)) != 1:
        yield f"trainer.v1.sync.parameter_sync_step={every} makes several updates of a step; use 1"
    if sampler.get("sync_refill_failed_groups"):
        yield "trainer.v1.sampler.sync_refill_failed_groups=True has no effect with a memory; use False"


def _refusals(config: Any, *, max_kept: int) -> Iterator[str]:
    """Yield a sentence for each setting with which rows would mean something else."""
    algorithm, actor, rollout = config.algorithm, config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    if algorithm.adv_estimator != NAME:
        yield f"algorithm.adv_estimator={algorithm.adv_estimator} would make advantages of advantages; use {NAME}"
    if algorithm.use_kl_in_reward:
        yield "algorithm.use_kl_in_reward=True adds to rewards that are advantages; use False"
    if algorithm.get("filter_groups") and algorithm.filter_groups.enable:
        yield "algorithm.filter_groups.enable=True drops groups by their rewards, which are advantages here; use False"
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
        yield "trainer.use_v1=False has no agent loop that works with this; use True"


def _approximations(config: Any) -> Iterator[str]:
    """Yield a reason for each setting by which the update departs from the statement without becoming meaningless."""
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
