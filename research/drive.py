"""The product's configuration, rollouts and packing, as benchmarks and studies call them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.records import Belief, Prompt, ResponseGroup, SamplingSettings

if TYPE_CHECKING:
    from omegaconf import DictConfig


ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"
_NAMES = count(1)


def composed(program: str, overrides: Sequence[str] = ()) -> DictConfig:
    """Return the configuration of ``train``, ``prepare`` or ``evaluate`` with these overrides."""
    from hydra import compose, initialize_config_dir

    import ada_lightning.config.generated  # noqa: F401 - has Hydra find what is made from classes

    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(program, list(overrides))


def collect(
    prompts: Sequence[Prompt],
    sampler: Any,
    *,
    engine: Any,
    grader: Any,
    selection: Any = None,
    schedule: Any = None,
    settings: SamplingSettings | int = 4,
    decode: Callable[[Sequence[int]], str] = lambda response_ids: str(response_ids[0]),
    seed: int = 0,
    step: int = 0,
    policy_version: int = 0,
    beliefs: Sequence[Belief] = (),
    episodes: Any = None,
    **options: Any,
) -> tuple[tuple[ResponseGroup, ...], Any]:
    """Run one rollout of training as a run does it.

    Args:
        prompts: encoded ones.
        sampler: who gets more.
        engine: with weights loaded.
        grader: reward pool.
        selection: what is kept; everything unless given.
        schedule: when responses are drawn; the step's default unless given.
        settings: how tokens are drawn, or the longest response in tokens.
        decode: token ids to text.
        seed: part of every response's seed.
        step: part of it too.
        policy_version: stamped on every response.
        beliefs: about each prompt's pass rate, in the order of the prompts.
        episodes: where responses have turns, what takes them to environments.
        options: more of the run's :class:`StepSettings`.

    Returns:
        One group per prompt in the order given, and the counts.
    """
    from ada_lightning.core.step import Step
    from ada_lightning.core.step_records import StepSettings
    from ada_lightning.methods.selection import AllSelection
    from ada_lightning.rollout.driver import Driver

    if schedule is not None:
        options["schedule"] = schedule
    sampling = SamplingSettings(max_new_tokens=settings) if isinstance(settings, int) else settings
    of_run = StepSettings(seed=seed, **options)
    begun = Step(
        prompts,
        sampler=sampler,
        selection=selection or AllSelection(),
        settings=of_run,
        step=step,
        policy_version=policy_version,
        beliefs=beliefs,
        max_prompt_tokens=engine.max_model_tokens - sampling.max_new_tokens,
    )
    driver = Driver(
        [begun],
        sampling=sampling,
        settings=of_run,
        grader=grader,
        decode=decode,
        episodes=episodes,
        name=str(next(_NAMES)),
    )
    started = time.monotonic()
    list(driver.run(engine))
    begun.stats.seconds = time.monotonic() - started
    return begun.finish(), begun.stats


def scripted_prompts(number: int) -> list[Prompt]:
    """Return prompts ``p0``, ``p1``, ... of one token each, their index."""
    return [Prompt(f"p{index}", (), prompt_ids=(index,)) for index in range(number)]


def collect_scripted(
    prompts: Sequence[Prompt], rates: Sequence[float] | Mapping[int, float], sampler: Any, **options: Any
) -> tuple[tuple[ResponseGroup, ...], Any]:
    """Run one rollout whose responses are right with fixed probabilities.

    Args:
        prompts: of :func:`scripted_prompts`.
        rates: pass rate by the prompt's first token.
        sampler: who gets more.
        options: of :func:`collect`; ``num_polls``: of the scripted engine.
    """
    from research.scripted import ScriptedEngine, ScriptedGrader

    pass_rates = dict(rates) if isinstance(rates, Mapping) else dict(enumerate(rates))
    polls = {"num_polls": options.pop("num_polls")} if "num_polls" in options else {}
    engine = ScriptedEngine(pass_rates=pass_rates, **polls)
    return collect(prompts, sampler, engine=engine, grader=ScriptedGrader(), **options)


def advantages(rule: Any, groups: Sequence[ResponseGroup]) -> NDArray[np.float64]:
    """Return the advantage of every kept response of groups with a signal, group after group. Shape ``(B,)``."""
    return np.array([value for row in rule.assign(groups) for value in row], dtype=np.float64)
