"""Checks of the composed configuration: all errors at once, before any model loads."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from ada_lightning.config.advantage import advantage_errors
from ada_lightning.config.callbacks import callback_errors
from ada_lightning.config.curriculum import curriculum_errors
from ada_lightning.config.estimator import estimator_errors
from ada_lightning.config.group import group_errors
from ada_lightning.config.keys import WITHOUT_EFFECT, unknown_keys
from ada_lightning.config.labels import label_errors
from ada_lightning.config.model import model_errors
from ada_lightning.config.notices import warn_of_settings
from ada_lightning.config.overrides import override_errors, top_level_keys
from ada_lightning.config.parallel import parallel_errors
from ada_lightning.config.problems import (
    ENGINE_ARGUMENTS,
    ConfigError,
    class_at,
    component_errors,
    component_message,
    distinct,
    interpolation_errors,
    missing_values,
    number_at,
    overruled_errors,
    value_at,
)
from ada_lightning.config.refill import refill_errors
from ada_lightning.config.rollout import rollout_errors
from ada_lightning.config.selection import selection_errors
from ada_lightning.config.types import type_errors
from ada_lightning.config.update import update_errors
from ada_lightning.run.run_dir import name_problem

__all__ = ["ConfigError", "check_config", "override_errors", "top_level_keys"]

LIGHT_COMPONENTS = (
    "objective",
    "estimator",
    "sampler",
    "curriculum",
    "selection",
    "refill",
    "advantage",
    "loss",
    "parameters",
    "attention",
    "reward.reward",
    "reward",
    "data.source",
    "rollout",
    "callbacks.alarms",
    "callbacks.evaluation.sampling",
    "model",
    "trainer.strategy",
)
"""Nodes whose constructor checks its arguments and does nothing else, so that it can be tried."""
REFERENCES: dict[str, tuple[str, ...]] = {"curriculum": ("objective", "sampler")}
"""Nodes that a node's own arguments may refer to: where one of those is wrong, only that is reported."""
COMPLETED: dict[str, tuple[str, ...]] = {
    "data": ("curriculum",),
    "policy": (
        "model_path",
        "reference_path",
        "advantage",
        "loss",
        "attention",
        "optimizer",
        "token_masks",
        "parameters",
        "checkpoint_path",
    ),
    "rollout.engine": ENGINE_ARGUMENTS,
    "callbacks.adaptive_sampling": (
        "service",
        "grader",
        "estimator",
        "sampler",
        "selection",
        "tokenizer",
        "eos_token_ids",
        "refill",
    ),
    "callbacks.objective_statement": ("sampler", "selection", "refill"),
    "callbacks.preview": ("service", "sampler", "selection", "refill"),
    "callbacks.evaluation": ("service",),
    "callbacks.checkpoint": ("tokenizer",),
}
"""Arguments that the program fills in by node; a configuration that sets one would be overruled without a word."""
PRECISIONS = ("32-true", "32", 32, "bf16-mixed")
"""Those that keep float32 master weights and need no loss scaling."""


def check_config(cfg: DictConfig, known_keys: Collection[str] | None = None) -> None:
    """Find everything that can be found wrong without loading a model; where nothing is, warn of what looks unmeant.

    Args:
        cfg: the composed configuration.
        known_keys: what may stand at the top, see :func:`ada_lightning.config.overrides.top_level_keys`; left out after
            :func:`~ada_lightning.config.overrides.override_errors`, which has compared it.

    Raises:
        ConfigError: one or more problems.
    """
    plain: Any = OmegaConf.to_container(cfg, resolve=False)
    of_wrong_type = type_errors(cfg)
    key_problems = (
        unknown_keys(plain, plain if known_keys is None else known_keys) | missing_values(cfg) | of_wrong_type
    )
    problems = list(key_problems.values()) + interpolation_errors(cfg)
    problems += _light_errors(cfg, key_problems)
    for key, completed in COMPLETED.items():
        problems += overruled_errors(cfg, key, completed)
        # an engine's constructor starts it; what checks its arguments alone is called by the service's check()
        if key != "rollout.engine" and not any(path.startswith(f"{key}.") for path in key_problems):
            problems += component_errors(cfg, key, completed)
    problems += callback_errors(cfg, (*LIGHT_COMPONENTS, *COMPLETED), key_problems)
    if not of_wrong_type:  # what compares parts computes with their numbers
        problems += _errors_across_parts(cfg)
    if not any(path.startswith("optimizer.") for path in key_problems):
        problems += _optimizer_errors(cfg)
    problems = distinct(problems)
    if problems:
        raise ConfigError(problems)
    warn_of_settings(cfg)


def _errors_across_parts(cfg: DictConfig) -> list[str]:
    return [
        *_length_errors(cfg),
        *_size_errors(cfg),
        *parallel_errors(cfg),
        *(f"{key} {reason}" for key, reason in WITHOUT_EFFECT.items() if value_at(cfg, key) is not None),
        *_training_errors(cfg),
        *_attention_errors(cfg),
        *_objective_errors(cfg),
        *_stratum_errors(cfg),
        *advantage_errors(cfg),
        *estimator_errors(cfg),
        *group_errors(cfg),
        *curriculum_errors(cfg),
        *update_errors(cfg),
        *label_errors(cfg),
        *refill_errors(cfg),
        *selection_errors(cfg),
        *rollout_errors(cfg),
        *model_errors(cfg),
        *_resume_errors(cfg),
    ]


def _light_errors(cfg: DictConfig, key_problems: Collection[str]) -> list[str]:
    """Try every light component whose keys, and whose references, are in order."""
    wrong = {key for key in LIGHT_COMPONENTS if any(path.startswith(f"{key}.") for path in key_problems)}
    problems = []
    for key in LIGHT_COMPONENTS:
        if key not in wrong and wrong.isdisjoint(REFERENCES.get(key, ())) and (found := component_errors(cfg, key)):
            wrong.add(key)
            problems += found
    return problems


def part_problems(cfg: DictConfig, components: Collection[str]) -> list[str]:
    """Find what can be wrong with the parts that every program has: keys, missing values, constructors, lengths.

    Args:
        cfg: the composed configuration.
        components: nodes whose constructor checks its arguments and does nothing else; ``rollout.engine`` is always
            looked at.

    Returns:
        One message per problem.
    """
    plain: Any = OmegaConf.to_container(cfg, resolve=False)
    key_problems = unknown_keys(plain, plain) | missing_values(cfg) | type_errors(cfg)
    problems = list(key_problems.values()) + interpolation_errors(cfg)
    problems += overruled_errors(cfg, "rollout.engine", ENGINE_ARGUMENTS)
    for key in components:
        if not any(path.startswith(f"{key}.") for path in key_problems):
            problems += component_errors(cfg, key)
    return distinct([*problems, *_length_errors(cfg), *rollout_errors(cfg), *model_errors(cfg)])


def _optimizer_errors(cfg: DictConfig) -> list[str]:
    """Try the optimiser on one parameter: it checks its settings when it is completed with some."""
    node = value_at(cfg, "optimizer")
    if not isinstance(node, DictConfig) or "_target_" not in node:
        return []
    from torch import nn

    try:
        instantiate(node)([nn.Linear(1, 1).weight])
    except InstantiationException as error:
        return [component_message("optimizer", error.__cause__ or error)]
    except (ValueError, TypeError, RuntimeError) as error:
        return [component_message("optimizer", error)]
    return []


def _length_errors(cfg: DictConfig) -> Iterator[str]:
    limit_key = "rollout.max_model_tokens"
    limit, prompt = number_at(cfg, limit_key), number_at(cfg, "data.max_prompt_tokens")
    if limit is None or prompt is None:
        return
    for key in ("rollout.sampling.max_new_tokens", "callbacks.evaluation.sampling.max_new_tokens"):
        response = number_at(cfg, key)
        if response is not None and limit < prompt + response:
            yield (
                f"{limit_key} = {limit} is less than data.max_prompt_tokens + {key} = {prompt} + {response}: "
                f"the longest responses would not fit; use {limit_key}={prompt + response} or shorten the others"
            )


def _size_errors(cfg: DictConfig) -> Iterator[str]:
    prompts, minibatches = number_at(cfg, "data.prompts_per_step"), number_at(cfg, "data.num_minibatches")
    if prompts is not None and minibatches is not None and prompts < minibatches:
        yield (
            f"data.prompts_per_step = {prompts} is less than data.num_minibatches = {minibatches}: a minibatch holds "
            f"whole prompts; use data.num_minibatches={prompts} or fewer"
        )


def _training_errors(cfg: DictConfig) -> Iterator[str]:
    precision = value_at(cfg, "trainer.precision")
    if precision is not None and precision not in PRECISIONS:
        yield (
            f"trainer.precision = {precision}: small updates need float32 master weights and gradients that are not "
            "scaled; use 32-true or bf16-mixed"
        )
    for key, neutral in (("rollout.sampling.top_p", 1.0), ("rollout.sampling.top_k", -1)):
        value = number_at(cfg, key)
        if value is not None and value != neutral:
            yield (
                f"{key} = {value}: the engine would sample from another distribution than the one that is trained; "
                f"use {key}={neutral} (callbacks.evaluation.sampling may cut as it likes)"
            )
    trained, sampled = number_at(cfg, "policy.temperature"), number_at(cfg, "rollout.sampling.temperature")
    if trained != sampled:
        yield f"policy.temperature = {trained} is not rollout.sampling.temperature = {sampled}; set only the latter"
    kept, drawn = number_at(cfg, "selection.group_size"), number_at(cfg, "sampler.n_max")
    if kept is not None and drawn is not None and kept > drawn:
        yield f"selection.group_size = {kept} exceeds sampler.n_max = {drawn}: no pool could fill a group"


def _attention_errors(cfg: DictConfig) -> Iterator[str]:
    attention = class_at(cfg, "attention")
    accelerator = value_at(cfg, "trainer.accelerator")
    if getattr(attention, "needs_gpu", False) and accelerator == "cpu":
        yield f"attention: {attention.__name__} trains on a GPU only, and trainer.accelerator = cpu; use attention=sdpa"
    if not getattr(attention, "shares_prompts", True) and value_at(cfg, "data.share_prompts"):
        yield (
            f"attention: {attention.__name__} cannot share a prompt among responses; use data.share_prompts=false, or "
            "attention=sdpa or attention=flex"
        )


def _objective_errors(cfg: DictConfig) -> Iterator[str]:
    if "objective" in cfg and "objective" not in (value_at(cfg, "advantage") or ()):
        yield (
            "objective is set, but the chosen advantage has none: it follows its own rule whatever the objective; "
            "use advantage=exact or advantage=stratified, or leave the objective out"
        )


def _stratum_errors(cfg: DictConfig) -> Iterator[str]:
    """Estimators of two classes do not go with strata of rewards, nor with partial credit."""
    from ada_lightning.methods.advantages import ExactAdvantage, StratifiedAdvantage
    from ada_lightning.methods.pass_rates import PathCountingRate
    from ada_lightning.methods.selection import RewardStrataSelection

    selection, advantage = class_at(cfg, "selection"), class_at(cfg, "advantage")
    two_classes = (ExactAdvantage, StratifiedAdvantage)
    if issubclass(selection, RewardStrataSelection) and issubclass(advantage, two_classes):
        yield (
            f"selection: {selection.__name__} weighs responses by their stratum of rewards, and {advantage.__name__} "
            "needs weights by positive and negative; use advantage=weighted_leave_one_out or selection=balanced"
        )
    cause, way_out = _partial_credit(cfg)
    if not cause:
        return
    for key in ("advantage", "advantage.pass_rate", "advantage.baseline", "advantage.advantage"):
        part = class_at(cfg, key)
        if issubclass(part, (*two_classes, PathCountingRate)):
            yield (
                f"{cause}, and {key} = {part.__name__} is for rewards of 0 and 1: all between would be lost; "
                f"use advantage=weighted_leave_one_out{way_out}"
            )
            return


def _partial_credit(cfg: DictConfig) -> tuple[str, str]:
    """Return what makes rewards lie between 0 and 1 and a way out beside another advantage, or two empty texts."""
    from ada_lightning.rewards.overlong import OverlongReward
    from ada_lightning.rewards.weighted import WeightedReward

    if issubclass(class_at(cfg, "reward.reward"), OverlongReward):
        return "reward.reward takes something off for length", " or another reward"
    by_name = value_at(cfg, "reward.reward.rewards")
    names = list(by_name) if isinstance(by_name, DictConfig) else []
    for reward in ("reward.reward", *(f"reward.reward.rewards.{name}" for name in names), "reward.reward.default"):
        if value_at(cfg, f"{reward}.binary") is False:
            return f"{reward}.binary = false gives partial credit", f" or {reward}.binary=true"
        if issubclass(class_at(cfg, reward), WeightedReward):
            return f"{reward} is a weighted sum", ""
    return "", ""


def _resume_errors(cfg: DictConfig) -> Iterator[str]:
    if problem := name_problem(str(value_at(cfg, "run_name"))):
        yield problem
    checkpoint = value_at(cfg, "ckpt")
    if checkpoint not in (None, "last", "auto"):
        yield (
            f"ckpt = {checkpoint}: use ckpt=last, which continues the run named by run_name=..., or ckpt=auto, which "
            "also starts it where it left no checkpoint"
        )
    elif checkpoint is not None and value_at(cfg, "preview"):
        yield "preview=true shows what a fresh run would cost; leave ckpt out"
