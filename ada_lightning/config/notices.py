"""Warnings at the start of a run: settings that work, but probably not as they were meant."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from hydra.core.hydra_config import HydraConfig

from ada_lightning.config.view import ConfigView
from ada_lightning.data.dataset import DatasetSource
from ada_lightning.methods.estimators import SimilarPrompts
from ada_lightning.parallel.environment import is_first_process
from ada_lightning.rewards.combined import with_parts
from ada_lightning.rewards.math import MathReward
from ada_lightning.rewards.user_function import UserFunctionReward
from ada_lightning.rollout.engines.vllm_engine import VllmEngine
from ada_lightning.rollout.engines.vllm_versions import version_notice
from ada_lightning.run.doctor import about_percentages

CPU_KV_CACHE_GIB = 0.5
"""What rollout=vllm_cpu gives an engine, and all that derive from it."""
_LENGTH = "rollout.sampling.max_new_tokens"
SHORT_RESPONSE_TOKENS = 32
"""Of rollout.sampling.max_new_tokens: enough for the task of the first run, adding numbers of one or two digits."""


def warn_of_settings(run: ConfigView) -> None:
    """Warn of everything once, from one process only; the warning names the caller of the check."""
    chosen = HydraConfig.get().overrides.task if HydraConfig.initialized() else ()
    for notice in settings_notices(run, chosen) if is_first_process() else ():
        warnings.warn(notice, UserWarning, stacklevel=3)


def settings_notices(run: ConfigView, chosen: Iterable[str] = ()) -> Iterator[str]:
    """Yield one message for each problem; a length given on the command line (``chosen``) is intended."""
    yield from _engine_notices(run)
    if not any(override.startswith(f"{_LENGTH}=") for override in chosen):
        yield from _length_notices(run)
    yield from _memory_notices(run)
    yield from _percentage_notices(run.part("reward.reward"))


def _engine_notices(run: ConfigView) -> Iterator[str]:
    """A vLLM that nobody tried; an engine for a CPU, which on a GPU has a small cache and no CUDA graphs."""
    if run.is_a("rollout.engine", VllmEngine) and (notice := version_notice()):
        yield notice
    gib, is_eager = run.number("rollout.engine.kv_cache_gib"), run.value("rollout.engine.enforce_eager")
    if run.is_gpu and is_eager and gib is not None and gib <= CPU_KV_CACHE_GIB:
        yield (
            f"the trainer is on a GPU, but the engine has the settings of a CPU (rollout.engine.kv_cache_gib = {gib}, "
            "enforce_eager = true), so rollouts would be slow. Use rollout=vllm_gpu. With several training processes "
            "use rollout=ray_gpu, which has an engine on each GPU"
        )


def _length_notices(run: ConfigView) -> Iterator[str]:
    """The default length is that of the first run's task; mathematics and data sets need room to reason."""
    response, prompt = run.number(_LENGTH), run.number("data.max_prompt_tokens")
    what = "reward=math" if run.is_a("reward.reward", MathReward) else ""
    what = "a data set" if run.is_a("data.source", DatasetSource) else what
    if what and response is not None and response <= SHORT_RESPONSE_TOKENS:
        yield (
            f"{_LENGTH} = {response} cuts every response of {what} at {response} tokens, "
            f"which is too short for most answers. For responses of up to 512 tokens: {_LENGTH}=512 "
            f"rollout.max_model_tokens={512 + int(prompt or 256)}. If you want short responses: {_LENGTH}={response:g}"
        )


def _percentage_notices(reward: Any) -> Iterator[str]:
    """Reward functions that call math-verify judge percentages otherwise than where Hydra is not installed."""
    if not (note := about_percentages()):
        return
    for part in with_parts(reward):
        with suppress(ValueError):  # a function that cannot be imported, which the check says
            if isinstance(part, UserFunctionReward) and part.function.mentions("math_verify"):
                yield f"{part.function.path} calls math-verify: {note}"


def _memory_notices(run: ConfigView) -> Iterator[str]:
    """Time is counted in prompts sampled, so one large step can be all that is remembered."""
    prompts = run.number("data.prompts_per_step")
    if prompts is None or not run.is_a("estimator", SimilarPrompts):
        return
    for name in ("num_visits", "drift_visits"):
        known = run.number(f"estimator.{name}")
        if known is not None and known < 2 * prompts:
            yield (
                f"estimator.{name} = {known:g} counts sampled prompts, and a step samples {prompts:g}: earlier steps "
                f"are nearly forgotten. Set estimator.{name} to several times data.prompts_per_step"
            )
