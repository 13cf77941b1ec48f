"""The figures of a held-out evaluation, over all prompts and per task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ada_lightning.analysis.metrics.avg_at_k import AvgAtK
from ada_lightning.analysis.metrics.maj_at_k import MajAtK
from ada_lightning.analysis.metrics.mean_by_k import MeanByK
from ada_lightning.analysis.metrics.pass_at_k import PassAtK
from ada_lightning.analysis.metrics.response_length import ResponseLength
from ada_lightning.core.records import ResponseGroup


def heldout_metrics(groups: Sequence[ResponseGroup], *, num_samples: int) -> dict[str, float]:
    """Compute ``eval/avg_at_<k>``, ``eval/pass_at_<k>``, ``eval/maj_at_<k>``, length and truncation.

    Where the prompts are of several tasks, each has the same figures under ``eval/<task>/``. ``maj`` is there where the
    reward tells answers, and for all prompts together where it does so for every task.

    Args:
        groups: one per evaluated prompt, whose pool holds every response.
        num_samples: responses drawn per prompt, k. Where grades failed and were left out, ``pass`` and ``maj`` are
            over the prompts that have all k; a figure that no prompt has is left out.
    """
    by_task: dict[str, list[ResponseGroup]] = {}
    for group in groups:
        by_task.setdefault(group.pool.prompt.task, []).append(group)
    of_tasks = {task: _figures(members, num_samples) for task, members in sorted(by_task.items())}
    figures = _figures(groups, num_samples)
    majority = f"maj_at_{num_samples}"
    if not all(majority in of_task for of_task in of_tasks.values()):
        figures.pop(majority, None)
    named = {f"eval/{name}": value for name, value in figures.items()}
    if len(of_tasks) > 1:
        for task, of_task in of_tasks.items():
            named |= {f"eval/{task or 'other'}/{name}": value for name, value in of_task.items()}
    return named


def _figures(groups: Sequence[ResponseGroup], num_samples: int) -> dict[str, float]:
    alone: dict[str, Any] = {"sync_on_compute": False}  # one process evaluates, and the others do not listen
    average, length = AvgAtK(**alone), ResponseLength(**alone)
    passed, majority = PassAtK(max_k=num_samples, **alone), MajAtK(max_k=num_samples, **alone)
    for metric in (average, length, passed, majority):
        metric.update(groups)
    figures = {f"avg_at_{num_samples}": float(average.compute())}
    if passed.num_prompts[-1]:
        figures[f"pass_at_{num_samples}"] = _last(passed)
        if majority.has_answers and majority.num_prompts[-1]:
            figures[f"maj_at_{num_samples}"] = _last(majority)
    return figures | {name: float(value) for name, value in length.compute().items()}


def _last(metric: MeanByK) -> float:
    """Figure for the largest k. torchmetrics makes a scalar of a figure of one element, and so of k = 1."""
    return float(torch.atleast_1d(metric.compute())[-1])
