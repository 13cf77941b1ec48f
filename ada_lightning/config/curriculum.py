"""Checks across curriculum and estimator: whether there is anything to choose prompts by."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from ada_lightning.config.estimator import part_of


def curriculum_errors(cfg: DictConfig) -> Iterator[str]:
    """Yield one message per problem. Parts that cannot be made are left alone: they are reported by themselves."""
    from ada_lightning.core.protocols import Curriculum, RememberingEstimator

    curriculum, estimator = part_of(cfg, "curriculum"), part_of(cfg, "estimator")
    if estimator is None or not isinstance(curriculum, Curriculum) or not curriculum.needs_history:
        return
    if not isinstance(estimator, RememberingEstimator):
        yield (
            f"curriculum: {type(curriculum).__name__} chooses by what is remembered of each prompt, and "
            f"{type(estimator).__name__} keeps nothing by prompt; use estimator=beta_history or estimator=ema with it, "
            "or curriculum=uniform"
        )
