"""Checks of an evaluation's configuration: all errors at once, before any model loads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ada_lightning.analysis.evaluation.checkpoint import OF_RUN
from ada_lightning.config.engine import environment_errors, model_errors
from ada_lightning.config.keys import unknown_keys
from ada_lightning.config.overrides import overrides_without_effect
from ada_lightning.config.prepare import UNUSED, size_errors
from ada_lightning.config.problems import ENGINE_ARGUMENTS, ConfigError, missing_values
from ada_lightning.config.values import value_errors
from ada_lightning.config.view import ConfigView


def check_evaluation(cfg: DictConfig, overrides: Sequence[str] = ()) -> None:
    """Find everything that can be found wrong without reading data or loading a model.

    Raises:
        ConfigError: one or more problems.
    """
    run = ConfigView(cfg)
    key_problems = unknown_keys(run.plain) | missing_values(run) | value_errors(run)
    problems = [text for key, text in key_problems.items() if _is_used(key, cfg)]
    for key in ("model", "sampling", "rollout", "mlflow", *(f"eval.sets.{name}" for name in run.names("eval.sets"))):
        if not any(path.startswith(f"{key}.") or path == key for path in key_problems):
            problems += run.errors(key)
    problems += [
        *_effect_errors(cfg, overrides),
        *run.overruled("rollout.engine", ENGINE_ARGUMENTS),
        *_set_errors(run),
        *_value_errors(run),
        *_length_errors(run),
        *environment_errors(run),
        *model_errors(run),
    ]
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _is_used(key: str, cfg: DictConfig) -> bool:
    """Whether anything reads a key: data and reward of the configuration count only where a set refers to them."""
    part = key.partition(".")[0]
    plain: Any = OmegaConf.to_container(cfg, resolve=False)
    return part not in ("data", "reward") or f"${{{part}" in repr(plain["eval"]["sets"])


def _effect_errors(cfg: DictConfig, overrides: Sequence[str]) -> list[str]:
    """Settings that are shared with training and that nothing here reads."""
    unused = [*UNUSED, "data.only", "rollout.truncated", "rollout.grader_failure", "rollout.failure_alarm_ratio"]
    unused += [key for key in ("data.source", "reward") if not _is_used(key, cfg)]
    typed = [override for override in overrides if not override.endswith(f"={OF_RUN}")]
    return overrides_without_effect(typed, unused, "evaluate.py with these sets")


def _set_errors(run: ConfigView) -> Iterator[str]:
    names = run.names("eval.sets")
    if not names:
        yield "eval.sets is empty: there is nothing to evaluate on; use eval=heldout, eval=paper or eval=files"
    for name in names:
        if not re.fullmatch(r"[\w.-]+", name):
            yield f"eval.sets.{name}: a set's name becomes a folder; use letters, digits, _, - and ."
        elif not isinstance(run.value(f"eval.sets.{name}"), DictConfig) or "_target_" not in run.cfg.eval.sets[name]:
            yield (
                f"eval.sets.{name} has no _target_; use ada_lightning.analysis.evaluation.sets.DatasetSet (with path, "
                "reward) or EvaluationSet (with source, reward)"
            )


def _value_errors(run: ConfigView) -> Iterator[str]:
    yield from size_errors(run, ("eval.num_samples", "prompts_per_file", "max_prompt_tokens"))
    if (failure := run.value("grader_failure")) not in ("as_zero", "exclude"):
        yield f"grader_failure must be as_zero or exclude; got {failure}"
    if run.number("positive_threshold") is None:
        yield f"positive_threshold must be a number; got {run.value('positive_threshold')}"


def _length_errors(run: ConfigView) -> Iterator[str]:
    limit, response = run.number("rollout.max_model_tokens"), run.number("sampling.max_new_tokens")
    if limit is not None and response is not None and limit <= response:
        yield (
            f"rollout.max_model_tokens = {limit} leaves no room for a prompt in addition to sampling.max_new_tokens = "
            f"{response}; raise the first or lower the second"
        )
