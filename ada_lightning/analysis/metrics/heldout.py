"""The figures of a held-out evaluation, over all prompts and per task."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.analysis.metrics.majority import MAX_RESPONSES, majority_at_k
from ada_lightning.analysis.metrics.subsets import pass_at_k
from ada_lightning.core.records import Response, ResponseGroup


def heldout_metrics(groups: Sequence[ResponseGroup], *, num_samples: int) -> dict[str, float]:
    """Compute ``eval/avg_at_<k>``, ``eval/pass_at_<k>``, ``eval/maj_at_<k>``, length and truncation.

    Where the prompts are of several tasks, each has the same figures under ``eval/<task>/``. ``maj`` is there where the
    reward tells answers, and for all prompts together where it does so for every task.

    Args:
        groups: one per evaluated prompt, whose pool holds every response.
        num_samples: responses drawn per prompt, k. Where grades failed and were left out, ``pass`` and ``maj`` are
            over the prompts that have all k; a figure that no prompt has is left out. ``avg`` is over the prompts with
            a graded response; length and truncation count responses equally, whatever their prompt.
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
    of_prompts: list[Sequence[Response]] = [group.pool.responses for group in groups if group.pool.responses]
    every = [response for responses in of_prompts for response in responses]
    whole = [responses for responses in of_prompts if len(responses) >= num_samples]
    countable = [responses for responses in whole if len(responses) <= MAX_RESPONSES]
    figures = {f"avg_at_{num_samples}": _mean([_mean([r.reward for r in responses]) for responses in of_prompts])}
    if whole:
        figures[f"pass_at_{num_samples}"] = _mean(
            [pass_at_k(sum(r.is_positive for r in drawn), len(drawn))[num_samples - 1] for drawn in whole]
        )
    if countable and any(response.answer is not None for response in every):
        figures[f"maj_at_{num_samples}"] = _mean(
            [majority_at_k([r.answer for r in d], [r.is_positive for r in d])[num_samples - 1] for d in countable]
        )
    figures["response_tokens"] = _mean([response.num_tokens for response in every])
    figures["truncated_ratio"] = _mean([response.is_truncated for response in every])
    return figures


def _mean(values: Sequence[float]) -> float:
    return float(sum(values) / len(values)) if values else 0.0
