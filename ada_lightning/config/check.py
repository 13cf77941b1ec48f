"""Checks of the composed configuration: all errors at once, before any model loads."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from lightning.pytorch import Callback
from lightning.pytorch.loggers import Logger
from omegaconf import DictConfig
from torch import nn

from ada_lightning.config.engine import environment_errors, model_errors, rollout_errors
from ada_lightning.config.keys import WITHOUT_EFFECT, unknown_keys
from ada_lightning.config.method_rules import METHOD_RULES, label_errors, overlong_errors
from ada_lightning.config.notices import warn_of_settings
from ada_lightning.config.overrides import override_errors
from ada_lightning.config.parallel import accelerator_errors, parallel_errors
from ada_lightning.config.problems import (
    ENGINE_ARGUMENTS,
    ConfigError,
    component_message,
    distinct,
    interpolation_errors,
    missing_values,
)
from ada_lightning.config.prompt_stream import stream_errors
from ada_lightning.config.update import (
    cutting_errors,
    gradient_norm_errors,
    mask_errors,
    staleness_errors,
    streaming_errors,
    target_errors,
)
from ada_lightning.config.values import value_errors
from ada_lightning.config.view import ConfigView, Rule
from ada_lightning.run.run_dir import name_problem

__all__ = ["ConfigError", "check_config", "override_errors"]

LIGHT_COMPONENTS = (
    "objective", "estimator", "sampler", "curriculum", "selection", "refill", "hints", "advantage", "loss",
    "parameters", "reward.reward", "reward", "data.source", "environment", "rollout",
    "callbacks.alarms",
    "callbacks.evaluation.sampling", "model", "trainer.strategy",
)  # fmt: skip
"""Nodes whose constructor checks its arguments and does nothing else, so that it can be tried."""
REFERENCES: dict[str, tuple[str, ...]] = {"curriculum": ("objective", "sampler")}
"""Nodes that a node's own arguments may refer to: where one of those is wrong, only that is reported."""
COMPLETED: dict[str, tuple[str, ...]] = {
    "data": ("curriculum",),
    "policy": (
        "model_path", "reference_path", "advantage", "loss", "optimizer", "token_masks", "parameters",
        "checkpoint_path",
    ),
    "rollout.engine": ENGINE_ARGUMENTS,
    "callbacks.adaptive_sampling": ("method", "service", "grader", "tokenizer", "eos_token_ids"),
    "callbacks.objective_statement": ("sampler", "selection", "refill", "hints"),
    "callbacks.preview": ("service", "sampler", "selection", "refill"),
    "callbacks.evaluation": ("service",),
    "callbacks.checkpoint": ("tokenizer",),
}  # fmt: skip
"""Arguments that the program fills in by node; a configuration that sets one would be overruled without a word."""
OWN_PACKAGES = ("ada_lightning.",)
"""Where constructors only note what they are given. Others' may open connections or files, so they are not tried."""
PRECISIONS = ("auto", "32-true", "32", 32, "bf16-mixed")
"""Those that keep float32 master weights and need no loss scaling; ``auto`` becomes one of them."""


def check_config(cfg: DictConfig) -> None:
    """Find everything that can be found wrong without loading a model; where nothing is, warn of what looks unmeant.

    Which keys may stand at the top :func:`~ada_lightning.config.overrides.override_errors` knows.

    Raises:
        ConfigError: one or more problems.
    """
    run = ConfigView(cfg)
    of_wrong_type, wrong_keys, problems = _value_errors(run)
    problems += _light_errors(run, wrong_keys)
    for key, completed in COMPLETED.items():
        problems += run.overruled(key, completed)
        # an engine's constructor starts it; what checks its arguments alone is called by the service's check()
        if key != "rollout.engine" and not _is_above(key, wrong_keys):
            problems += run.errors(key, completed)
    problems += _callback_errors(run, wrong_keys)
    if not of_wrong_type:  # what compares parts computes with their numbers
        problems += [message for rule in RULES for message in rule(run)]
    if not _is_above("optimizer", wrong_keys):
        problems += _optimizer_errors(run)
    if problems:
        raise ConfigError(distinct(problems))
    warn_of_settings(run)


def part_problems(run: ConfigView, components: Collection[str]) -> list[str]:
    """Find what can be wrong with the parts that every program has: keys, missing values, constructors, lengths.

    The constructors of ``components`` check their arguments and do nothing else.
    """
    _, wrong_keys, problems = _value_errors(run)
    problems += run.overruled("rollout.engine", ENGINE_ARGUMENTS)
    for key in components:
        if not _is_above(key, wrong_keys):
            problems += run.errors(key)
    return distinct(
        [*problems, *_length_errors(run), *rollout_errors(run), *environment_errors(run), *model_errors(run)]
    )


def _value_errors(run: ConfigView) -> tuple[Collection[str], Collection[str], list[str]]:
    """Keys with a value of a wrong kind, keys with anything wrong by itself, and the messages about them."""
    of_wrong_type = value_errors(run)
    by_key = unknown_keys(run.plain) | missing_values(run) | of_wrong_type
    return of_wrong_type, by_key, [*by_key.values(), *interpolation_errors(run)]


def _is_above(key: str, wrong_keys: Collection[str]) -> bool:
    return any(wrong.startswith(f"{key}.") for wrong in wrong_keys)


def _light_errors(run: ConfigView, wrong_keys: Collection[str]) -> list[str]:
    """Try every light component whose keys, and whose references, are in order."""
    wrong = {key for key in LIGHT_COMPONENTS if _is_above(key, wrong_keys)}
    problems = []
    for key in LIGHT_COMPONENTS:
        if key not in wrong and wrong.isdisjoint(REFERENCES.get(key, ())) and (found := run.errors(key)):
            wrong.add(key)
            problems += found
    return problems


def _callback_errors(run: ConfigView, wrong_keys: Collection[str]) -> Iterator[str]:
    """Try every callback and logger of this project that comes complete out of the configuration.

    Of others only the class is looked at.
    """
    keys = [(group, f"{group}.{name}") for group in ("callbacks", "logger") for name in run.names(group)]
    for group, key in keys:
        base, place = (Callback, "lightning.pytorch") if group == "callbacks" else (Logger, "lightning.pytorch.loggers")
        target, kind = run.value(f"{key}._target_"), run.kind(key)
        if kind is not object and not issubclass(kind, base):
            yield f"{key}: {target} is no {base.__name__} of Lightning; inherit from {place}.{base.__name__}"
        is_own = str(target).startswith(OWN_PACKAGES)
        if is_own and key not in (*LIGHT_COMPONENTS, *COMPLETED) and not _is_above(key, wrong_keys):
            yield from run.errors(key)


def _optimizer_errors(run: ConfigView) -> list[str]:
    """Try the optimiser on one parameter: it checks its settings when it is completed with some."""
    node = run.value("optimizer")
    if not isinstance(node, DictConfig) or "_target_" not in node:
        return []
    if run.number("optimizer.lr") == 0:
        return ["optimizer.lr = 0 changes no weight; use a number above 0, or preview=true to see what steps cost"]
    try:
        instantiate(node)([nn.Linear(1, 1).weight])
    except (InstantiationException, ValueError, TypeError, RuntimeError) as error:
        return [component_message("optimizer", error.__cause__ or error)]
    return []


def _length_errors(run: ConfigView) -> Iterator[str]:
    limit_key = "rollout.max_model_tokens"
    limit, prompt = run.number(limit_key), run.number("data.max_prompt_tokens")
    if limit is None or prompt is None:
        return
    for key in ("rollout.sampling.max_new_tokens", "callbacks.evaluation.sampling.max_new_tokens"):
        response = run.number(key)
        if response is not None and limit < prompt + response:
            yield (
                f"{limit_key} = {limit} is less than data.max_prompt_tokens + {key} = {prompt} + {response}: "
                f"the longest responses would not fit; use {limit_key}={prompt + response} or shorten the others"
            )


def _size_errors(run: ConfigView) -> Iterator[str]:
    """Said by the data itself, where the rest of it is in order."""
    prompts, minibatches = run.number("data.prompts_per_step"), run.number("data.num_minibatches")
    is_said = any("data.num_minibatches" in message for message in run.errors("data", COMPLETED["data"]))
    if prompts is not None and minibatches is not None and 1 <= prompts < minibatches and not is_said:
        yield (
            f"data.prompts_per_step = {prompts} is less than data.num_minibatches = {minibatches}: a minibatch holds "
            f"whole prompts; use data.num_minibatches={prompts} or fewer"
        )


def _idle_errors(run: ConfigView) -> Iterator[str]:
    return (f"{key} {reason}" for key, reason in WITHOUT_EFFECT.items() if run.value(key) is not None)


def _training_errors(run: ConfigView) -> Iterator[str]:
    precision = run.value("trainer.precision")
    if precision is not None and precision not in PRECISIONS:
        yield (
            f"trainer.precision = {precision}: small updates need float32 master weights and gradients that are not "
            "scaled; use 32-true or bf16-mixed"
        )
    for key, neutral in (("rollout.sampling.top_p", 1.0), ("rollout.sampling.top_k", -1)):
        value = run.number(key)
        if value is not None and value != neutral:
            yield (
                f"{key} = {value}: the engine would sample from another distribution than the one that is trained; "
                f"use {key}={neutral} (callbacks.evaluation.sampling is free)"
            )
    trained, sampled = run.number("policy.temperature"), run.number("rollout.sampling.temperature")
    if trained != sampled:
        yield f"policy.temperature = {trained} is not rollout.sampling.temperature = {sampled}; set only the second"
    kept, drawn = run.number("selection.group_size"), run.number("sampler.n_max")
    if kept is not None and drawn is not None and kept > drawn:
        yield f"selection.group_size = {kept} exceeds sampler.n_max = {drawn}: no pool could fill a group"


def _resume_errors(run: ConfigView) -> Iterator[str]:
    if problem := name_problem(str(run.value("run_name"))):
        yield problem
    checkpoint = run.value("ckpt")
    if checkpoint not in (None, "last", "auto"):
        yield (
            f"ckpt = {checkpoint}: use ckpt=last, which continues the run named by run_name=..., or ckpt=auto, which "
            "also starts it where it left no checkpoint"
        )
    elif checkpoint is not None and run.value("preview"):
        yield "preview=true shows what a fresh run would cost; leave ckpt out"


RULES: tuple[Rule, ...] = (
    _length_errors,
    _size_errors,
    accelerator_errors,
    parallel_errors,
    _idle_errors,
    _training_errors,
    *METHOD_RULES,
    mask_errors,
    gradient_norm_errors,
    target_errors,
    label_errors,
    overlong_errors,
    cutting_errors,
    rollout_errors,
    environment_errors,
    model_errors,
    staleness_errors,
    streaming_errors,
    stream_errors,
    _resume_errors,
)
"""What does not go together: every one is asked, and all that they say is told at once."""
