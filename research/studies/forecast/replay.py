"""The stored runs, step by step, and what each rule takes of a step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ada_lightning.core.records import Prompt
from ada_lightning.methods.estimators import SimilarPrompts, WordEmbedding
from research.studies.forecast.probes import PROBES, Figures
from research.studies.forecast.rules import COMMITTED, FORECASTS, GROUP, Floats, Past, Step, num_chosen, taken
from research.studies.real_model.calibration import Visit

UNIFORM = "uniform"
"""All prompts of a step: what a run without a forecast trains on."""
Visits = Sequence[tuple[str, int, int]]
"""Prompt, right responses and responses of a step's prompts."""


def steps_of(visits: Sequence[Visits], prompts: Mapping[str, Prompt]) -> list[Step]:
    """Return a run's steps with what the committed forecast believed before each, with and without ``spread_scale``.

    Args:
        visits: of the run, by step.
        prompts: the training prompts by id.

    Raises:
        ValueError: a group is not of ``GROUP`` responses.
    """
    if wrong := {number for step in visits for _, _, number in step} - {GROUP}:
        raise ValueError(f"groups of {sorted(wrong)} responses are stored; the rules compare groups of {GROUP}")
    plain, committed = (_believed(visits, prompts, scale) for scale in (0.0, COMMITTED))
    return [
        Step(
            [prompts[prompt_id].task for prompt_id, *_ in step],
            np.array([right for _, right, _ in step]),
            {0.0: without, COMMITTED: with_spread},
        )
        for step, without, with_spread in zip(visits, plain, committed, strict=True)
    ]


def _believed(visits: Sequence[Visits], prompts: Mapping[str, Prompt], scale: float) -> Iterator[tuple[Floats, Floats]]:
    """Yield alpha and beta of each step's prompts before it, as the estimator would have had them in the run."""
    estimator = SimilarPrompts(embedding=WordEmbedding(), spread_scale=scale)
    estimator.check_prompts(list(prompts.values()))
    for step in visits:
        of_step = [Visit(prompts[prompt_id], right, number) for prompt_id, right, number in step]
        beliefs = estimator.recall([visit.prompt for visit in of_step])
        yield np.array([belief.alpha for belief in beliefs]), np.array([belief.beta for belief in beliefs])
        estimator.learn(of_step)


def replayed(run: str, steps: Past) -> list[dict[str, Any]]:
    """Return a row of each rule: share of the taken prompts that had a signal, and their p (1 - p), by late step.

    Late are the steps of the second half, the first step of a run not counted: nothing is known before it. None stands
    where a probe does not tell a figure.
    """
    late = range(1 + (len(steps) - 1) // 2, len(steps))
    found = {UNIFORM: [_figures(np.ones(len(steps[number].tasks)), steps[number]) for number in late]}
    for name, score in FORECASTS.items():
        found[name] = []
        for number in late:
            step = steps[number]
            found[name].append(_figures(taken(score(steps[:number], step), num_chosen(step)), step))
    found |= {name: [probe(steps[number]) for number in late] for name, (probe, _) in PROBES.items()}
    return [
        {
            "run": run,
            "rule": name,
            "steps": list(late),
            **{
                column: [None if math.isnan(value) else round(value, 4) for value in values]
                for column, values in zip(("signal", "spread"), zip(*figures, strict=True), strict=True)
            },
        }
        for name, figures in found.items()
    ]


def _figures(chance_P: Floats, step: Step) -> Figures:
    chance_P = chance_P / chance_P.sum()
    return float(chance_P @ step.has_signal), float(chance_P @ step.spread)
