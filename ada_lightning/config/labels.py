"""Checks for samplers that label responses themselves: the labels must know nothing of the reference."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from ada_lightning.config.estimator import part_of


def label_errors(cfg: DictConfig) -> Iterator[str]:
    """Yield a message where the reward tells no answers, or answers that depend on the reference."""
    from ada_lightning.core.protocols import Sampler, Trait

    sampler, reward = part_of(cfg, "sampler"), part_of(cfg, "reward.reward")
    if not isinstance(sampler, Sampler) or Trait.GIVES_REWARDS not in sampler.traits or reward is None:
        return
    told = getattr(reward, "answers_without_reference", None)
    if told is True:
        return
    name = type(reward).__name__
    reason = f"{name} spells an answer like the reference where it equals it" if told is False else f"{name} tells none"
    yield (
        f"sampler: {type(sampler).__name__} makes labels of the answers that a reward finds without the reference, and "
        f"{reason}; use reward=exact_match, reward=numeric, reward=reasoning_gym, reward=math with "
        "reward.reward.own_spelling=true, or a function that returns a Verdict with an answer and has the attribute "
        "answers_without_reference = True"
    )
