"""Checks of a configuration of ``prepare.py``: all errors at once, before any model loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ada_lightning.analysis.offline.band import PassRateBand
from ada_lightning.config.check import part_problems
from ada_lightning.config.notices import warn_of_settings
from ada_lightning.config.overrides import overrides_without_effect
from ada_lightning.config.problems import ConfigError

COMPONENTS = ("reward.reward", "reward", "data.source", "data", "rollout", "model", "band")
UNUSED = (
    "num_steps",
    "data.prompts_per_step",
    "data.num_minibatches",
    "data.epochs_per_rollout",
    "data.max_tokens_per_microbatch",
    "data.share_prompts",
    "data.skip_groups_without_signal",
    "data.num_steps",
    "data.curriculum",
    "data.seed",
    "rollout.schedule",
)
"""Keys of groups that are shared with training, about training alone."""


def check_prepare_config(cfg: DictConfig, overrides: Sequence[str] = ()) -> None:
    """Find everything that can be found wrong without loading a model; where nothing is, warn of what looks unmeant.

    Args:
        cfg: the composed configuration.
        overrides: arguments of the command line.

    Raises:
        ConfigError: one or more problems.
    """
    problems = [
        *overrides_without_effect(overrides, UNUSED, "prepare.py"),
        *part_problems(cfg, COMPONENTS),
        *_size_errors(cfg),
        *_band_errors(cfg),
    ]
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    warn_of_settings(cfg)


def _size_errors(cfg: DictConfig) -> Iterator[str]:
    for key in ("num_samples", "prompts_per_file"):
        value = OmegaConf.select(cfg, key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            yield f"{key} must be an integer of at least 1; got {value}"


def _band_errors(cfg: DictConfig) -> Iterator[str]:
    """Whether anything can be selected, where the band and the number of samples are in order themselves."""
    if any(_size_errors(cfg)):
        return
    try:
        band = instantiate(cfg.band)
    except (InstantiationException, OmegaConfBaseException):
        return
    if isinstance(band, PassRateBand):
        try:
            band.check_samples(cfg.num_samples)
        except ValueError as error:
            yield str(error)
