"""Checks of a configuration of ``prepare.py``: all errors at once, before any model loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omegaconf import DictConfig

from ada_lightning.analysis.offline.band import PassRateBand
from ada_lightning.config.check import part_problems
from ada_lightning.config.notices import warn_of_settings
from ada_lightning.config.overrides import overrides_without_effect
from ada_lightning.config.problems import ConfigError
from ada_lightning.config.view import ConfigView
from ada_lightning.data.streaming import StreamingSource

COMPONENTS = ("reward.reward", "reward", "data.source", "data", "environment", "rollout", "model", "band")
UNUSED = (
    "num_steps", "data.prompts_per_step", "data.num_minibatches", "data.epochs_per_rollout",
    "data.max_tokens_per_microbatch", "data.share_prompts", "data.skip_groups_without_signal", "data.num_steps",
    "data.curriculum", "data.seed", "rollout.schedule", "rollout.max_staleness", "rollout.stream_gradients",
    "rollout.reproducible", "rollout.verdict_delay",
)  # fmt: skip
"""Keys of groups that are shared with training, about training alone."""


def check_prepare_config(cfg: DictConfig, overrides: Sequence[str] = ()) -> None:
    """Find everything that can be found wrong without loading a model; where nothing is, warn of what looks unmeant.

    Raises:
        ConfigError: one or more problems.
    """
    run = ConfigView(cfg)
    problems = [
        *overrides_without_effect(overrides, UNUSED, "prepare.py"),
        *part_problems(run, COMPONENTS),
        *size_errors(run),
        *_band_errors(run),
        *_source_errors(run),
    ]
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    warn_of_settings(run)


def size_errors(run: ConfigView, keys: Sequence[str] = ("num_samples", "prompts_per_file")) -> Iterator[str]:
    """Look at numbers at the top that belong to no constructor."""
    for key in keys:
        value = run.value(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            yield f"{key} must be an integer of at least 1; got {value}"


def _source_errors(run: ConfigView) -> Iterator[str]:
    """A stream has no list of prompts to draw from and to select."""
    if run.is_a("data.source", StreamingSource):
        yield (
            "data.source: prepare.py draws responses of each training prompt, and a stream has no list of them. Use "
            "data=dataset with the part that is to be measured, such as data.source.split=train[:10000]"
        )


def _band_errors(run: ConfigView) -> Iterator[str]:
    """Whether anything can be selected, where the band and the number of samples are in order themselves."""
    band = run.part("band")
    if isinstance(band, PassRateBand) and not any(size_errors(run)):
        try:
            band.check_samples(run.cfg.num_samples)
        except ValueError as error:
            yield str(error)
