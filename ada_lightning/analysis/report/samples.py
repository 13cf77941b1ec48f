"""Sampled responses of several methods to the same prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ada_lightning.analysis.report.method import Method
from ada_lightning.analysis.report.responses import Sample, heldout_table, training_tables
from ada_lightning.analysis.report.run import Run

MAX_RESPONSES = 4


@dataclass(frozen=True)
class Answers:
    """Responses of one run to one prompt at one step."""

    run: str
    seed: Any
    step: int
    rewards: list[float]
    """Of all responses, in the order in which they were drawn."""
    shown: list[Sample]
    """Those that train first, at most ``MAX_RESPONSES``."""


@dataclass(frozen=True)
class Comparison:
    """A prompt and what each method answered."""

    prompt: str
    answers: list[Answers | None]
    """One per method; None where its tables lack the prompt."""
    is_heldout: bool = False
    """Whether the prompt is held out, and the responses those of the last evaluation."""


@dataclass
class _Sighting:
    """Where tables of a method show a prompt."""

    prompt: str
    places: list[tuple[int, Run, list[Sample]]] = field(default_factory=list)


Sightings = Mapping[str, _Sighting]


def compare_samples(methods: Sequence[Method], *, num_prompts: int) -> list[Comparison]:
    """Find prompts to which most methods kept responses.

    Up to half are held-out prompts, the first ones, with what each method answered when it was last evaluated. The
    others are training prompts, each at steps as near to each other as there are, spread over the training.

    Args:
        methods: what is compared.
        num_prompts: most comparisons.

    Raises:
        ValueError: a table of responses cannot be read.
    """
    heldout = _heldout([_seen(_last_evaluation(method)) for method in methods], num_prompts // 2)
    training = [_seen(_training(method)) for method in methods]
    return [*heldout, *_nearest(training, num_prompts - len(heldout))]


def _last_evaluation(method: Method) -> Iterable[tuple[Run, int, list[Sample]]]:
    for run in method.runs:
        if table := heldout_table(run.folder):
            yield run, *table


def _training(method: Method) -> Iterable[tuple[Run, int, list[Sample]]]:
    for run in method.runs:
        for step, samples in training_tables(run.folder):
            yield run, step, samples


def _seen(tables: Iterable[tuple[Run, int, list[Sample]]]) -> Sightings:
    seen: dict[str, _Sighting] = {}
    for run, step, samples in tables:
        groups: dict[str, list[Sample]] = {}
        for sample in samples:
            groups.setdefault(sample.prompt_id, []).append(sample)
        for prompt_id, group in groups.items():
            seen.setdefault(prompt_id, _Sighting(group[0].prompt)).places.append((step, run, group))
    return seen


def _heldout(sightings: Sequence[Sightings], num_prompts: int) -> list[Comparison]:
    candidates = [_candidates(prompt_id, sightings, is_heldout=True)[0] for prompt_id in _prompt_ids(sightings)]
    return _of_most_methods(candidates)[:num_prompts]


def _nearest(sightings: Sequence[Sightings], num_prompts: int) -> list[Comparison]:
    candidates = [
        comparison for prompt_id in _prompt_ids(sightings) for comparison in _candidates(prompt_id, sightings)
    ]
    best = sorted(_of_most_methods(candidates), key=lambda comparison: (_distance(comparison), _step(comparison)))
    nearest = [comparison for comparison in best if _distance(comparison) == _distance(best[0])]
    pool = sorted(nearest if len(nearest) >= num_prompts else best[:num_prompts], key=_step)
    if len(pool) <= num_prompts:
        return pool
    last = len(pool) - 1
    return [pool[place] for place in sorted({round(n * last / max(num_prompts - 1, 1)) for n in range(num_prompts)})]


def _prompt_ids(sightings: Sequence[Sightings]) -> list[str]:
    return list(dict.fromkeys(prompt_id for seen in sightings for prompt_id in seen))


def _candidates(prompt_id: str, sightings: Sequence[Sightings], *, is_heldout: bool = False) -> list[Comparison]:
    """Compare at each place at which the first method that knows the prompt shows it."""
    there = [seen.get(prompt_id) for seen in sightings]
    leader = next(sighting for sighting in there if sighting)
    return [
        Comparison(leader.prompt, [_answers(sighting, step, run.seed) for sighting in there], is_heldout)
        for step, run, _ in leader.places
    ]


def _answers(sighting: _Sighting | None, step: int, seed: Any) -> Answers | None:
    """Take the place nearest to a step, of the same seed if there is one as near."""
    if sighting is None:
        return None
    at, run, samples = min(sighting.places, key=lambda place: (abs(place[0] - step), place[1].seed != seed, place[0]))
    shown = sorted(samples, key=lambda sample: not sample.is_kept)[:MAX_RESPONSES]
    return Answers(run.name, run.seed, at, [sample.reward for sample in samples], shown)


def _of_most_methods(candidates: Sequence[Comparison]) -> list[Comparison]:
    most = max((_num_methods(comparison) for comparison in candidates), default=0)
    return [comparison for comparison in candidates if _num_methods(comparison) == most]


def _num_methods(comparison: Comparison) -> int:
    return sum(answers is not None for answers in comparison.answers)


def _steps(comparison: Comparison) -> list[int]:
    return [answers.step for answers in comparison.answers if answers]


def _distance(comparison: Comparison) -> int:
    return max(_steps(comparison)) - min(_steps(comparison))


def _step(comparison: Comparison) -> int:
    return min(_steps(comparison))
