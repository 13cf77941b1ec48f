"""Settings of SkyRL with which rows would mean something else, or the update departs from the statement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NAME = "ada"
"""``trainer.algorithm.advantage_estimator``."""


def refusals(cfg: Any, *, max_kept: int) -> Iterator[str]:
    """Yield a sentence for each setting with which the rows would mean something else.

    Args:
        cfg: SkyRL's configuration.
        max_kept: most rows of a prompt; 0 where the method does not say.
    """
    yield from _of_the_loss(cfg.trainer.algorithm)
    yield from _of_the_rows(cfg, max_kept)


def _of_the_loss(algorithm: Any) -> Iterator[str]:
    if algorithm.advantage_estimator != NAME:
        yield f"trainer.algorithm.advantage_estimator={algorithm.advantage_estimator} would rescale advantages; use ada"
    if algorithm.loss_reduction != "seq_mean_token_sum_norm" or not algorithm.max_seq_len:
        yield (
            f"trainer.algorithm.loss_reduction={algorithm.loss_reduction}, max_seq_len={algorithm.max_seq_len} divide "
            "by what was kept; use seq_mean_token_sum_norm, and the longest sequence in tokens"
        )
    if algorithm.advantage_batch_normalize:
        yield "trainer.algorithm.advantage_batch_normalize=true would rescale advantages; use false"
    if algorithm.zero_variance_filter or algorithm.dynamic_sampling.type is not None:
        yield (
            f"trainer.algorithm.zero_variance_filter={algorithm.zero_variance_filter}, dynamic_sampling.type="
            f"{algorithm.dynamic_sampling.type} drop groups by rewards that are advantages here; use false and null"
        )
    if algorithm.use_kl_in_reward:
        yield "trainer.algorithm.use_kl_in_reward=true adds to rewards that are advantages; use false"


def _of_the_rows(cfg: Any, max_kept: int) -> Iterator[str]:
    trainer, generator = cfg.trainer, cfg.generator
    if generator.step_wise_trajectories or generator.apply_overlong_filtering:
        yield (
            f"generator.step_wise_trajectories={generator.step_wise_trajectories}, apply_overlong_filtering="
            f"{generator.apply_overlong_filtering} change rows behind the method; use false"
        )
    if trainer.policy_mini_batch_size != trainer.train_batch_size:
        yield (
            f"trainer.policy_mini_batch_size={trainer.policy_mini_batch_size} is not train_batch_size="
            f"{trainer.train_batch_size}: a step would make several updates"
        )
    if generator.n_samples_per_prompt < max_kept or not max_kept:
        yield (
            f"generator.n_samples_per_prompt={generator.n_samples_per_prompt} is less than the {max_kept or 'unknown'} "
            "rows that a prompt may keep"
        )
    if cfg.data.dataloader.num_workers != 0:
        number = cfg.data.dataloader.num_workers
        yield f"data.dataloader.num_workers={number}: copies of the data set would choose; use 0"
    if trainer.critic.model.path:
        yield "trainer.critic.model.path names a critic, and the advantages are the method's; leave it out"


def approximations(cfg: Any) -> Iterator[str]:
    """Yield a reason for each setting by which the update departs from the statement without becoming meaningless.

    Args:
        cfg: SkyRL's configuration.
    """
    trainer, algorithm, sampling = cfg.trainer, cfg.trainer.algorithm, cfg.generator.sampling_params
    if trainer.fully_async.enabled:
        yield (
            f"trainer.fully_async: rows are drawn by policies that are up to {trainer.fully_async.max_staleness_steps} "
            "updates older, and change within a response"
        )
    if trainer.update_epochs_per_batch > 1:
        number = trainer.update_epochs_per_batch
        yield f"trainer.update_epochs_per_batch={number}: later updates of a step are off-policy"
    if algorithm.use_kl_loss or algorithm.use_entropy_loss:
        yield (
            f"trainer.algorithm.use_kl_loss={algorithm.use_kl_loss}, use_entropy_loss={algorithm.use_entropy_loss} add "
            "terms to the loss; the first is on by default"
        )
    if algorithm.policy_loss_type != "regular":
        yield f"trainer.algorithm.policy_loss_type={algorithm.policy_loss_type} is not a sum of ratio times advantage"
    correction = algorithm.off_policy_correction
    if correction.tis_ratio_type is not None or correction.sequence_mask_metric is not None:
        yield "trainer.algorithm.off_policy_correction weighs tokens by the engine's ratio, or drops by it"
    if (sampling.temperature, sampling.top_p, sampling.top_k) != (1.0, 1.0, -1):
        yield (
            f"generator.sampling_params.temperature={sampling.temperature}, top_p={sampling.top_p}, top_k="
            f"{sampling.top_k}: responses come from another distribution than the one that is trained"
        )
