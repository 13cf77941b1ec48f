"""Sampled responses of several methods to the same prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ada_lightning.analysis.report.method import Method

MAX_RESPONSES = 4


@dataclass(frozen=True)
class Sample:
    """One response, as the page shows it."""

    prompt_id: str
    prompt: str
    text: str
    reward: float
    is_kept: bool
    """Whether it may train."""
    advantage: float
    is_truncated: bool
    """Whether the length limit cut it."""


@dataclass(frozen=True)
class Answers:
    """Responses of one run to one prompt at one step."""

    step: int
    seed: Any
    samples: list[Sample]
    """In the order in which they were drawn."""

    @property
    def rewards(self) -> list[float]:
        """Of all responses."""
        return [sample.reward for sample in self.samples]

    @property
    def shown(self) -> list[Sample]:
        """Those that train first, at most ``MAX_RESPONSES``."""
        return sorted(self.samples, key=lambda sample: not sample.is_kept)[:MAX_RESPONSES]


@dataclass(frozen=True)
class Comparison:
    """A prompt and what each method answered."""

    prompt: str
    answers: list[Answers | None]
    """One per method; None where its tables lack the prompt."""
    is_heldout: bool = False
    """Whether the prompt is held out, and the responses those of the last evaluation."""

    @property
    def steps(self) -> list[int]:
        """At which the methods answered."""
        return [answers.step for answers in self.answers if answers]

    @property
    def distance(self) -> int:
        """Steps between the first and the last of them."""
        return max(self.steps) - min(self.steps)


Sightings = Mapping[str, Sequence[Answers]]
"""What a method answered to each prompt, by the prompt's id."""


def compare_samples(methods: Sequence[Method], *, num_prompts: int) -> list[Comparison]:
    """Find prompts to which most methods kept responses.

    Up to half are held-out prompts, the first ones, with what each method answered when it was last evaluated. The
    others are training prompts, each at steps as near to each other as there are, spread over the training.

    Args:
        methods: what is compared.
        num_prompts: most comparisons.

    Raises:
        ValueError: a table of responses cannot be read; the text names it.
    """
    evaluated = [_seen(method, _last_evaluation) for method in methods]
    first_of_each = [candidates[0] for candidates in _candidates(evaluated, is_heldout=True)]
    heldout = _of_most_methods(first_of_each)[: num_prompts // 2]
    training = _candidates([_seen(method, _training_tables) for method in methods])
    return [*heldout, *_nearest([found for each in training for found in each], num_prompts - len(heldout))]


def read_table(path: Path) -> list[Sample]:
    """Read a table of responses, a file of ``responses/``.

    Raises:
        ValueError: it cannot be read; the text names the file.
    """
    from pyarrow import parquet

    try:
        return [_sample(row) for row in parquet.read_table(path).to_pylist()]
    except (ValueError, TypeError, KeyError) as error:  # pyarrow's own errors are ValueErrors
        raise ValueError(f"{path} cannot be read as a table of responses: {error}") from error


def _sample(row: Mapping[str, Any]) -> Sample:
    return Sample(
        prompt_id=row["prompt_id"],
        prompt=row["prompt"],
        text=row["text"],
        reward=row["reward"],
        is_kept=row["is_kept"],
        advantage=row["advantage"] or 0.0,
        is_truncated=row["finish_reason"] == "length",
    )


def _training_tables(folder: Path) -> list[Path]:
    return sorted((folder / "responses" / "train").glob("step_*.parquet"))


def _last_evaluation(folder: Path) -> list[Path]:
    return sorted((folder / "responses" / "eval").glob("step_*.parquet"), key=_step_of)[-1:]


def _step_of(path: Path) -> int:
    return int(re.findall(r"\d+", path.name)[-1])


def _seen(method: Method, tables: Callable[[Path], list[Path]]) -> Sightings:
    seen: dict[str, list[Answers]] = {}
    for run in method.runs:
        for path in tables(run.folder):
            by_prompt: dict[str, list[Sample]] = {}
            for sample in read_table(path):
                by_prompt.setdefault(sample.prompt_id, []).append(sample)
            for prompt_id, samples in by_prompt.items():
                seen.setdefault(prompt_id, []).append(Answers(_step_of(path), run.seed, samples))
    return seen


def _candidates(sightings: Sequence[Sightings], *, is_heldout: bool = False) -> Iterator[list[Comparison]]:
    """For each prompt a comparison at each place at which the first method that knows it shows it."""
    for prompt_id in dict.fromkeys(prompt_id for seen in sightings for prompt_id in seen):
        there = [seen.get(prompt_id, ()) for seen in sightings]
        leader = next(places for places in there if places)
        prompt = leader[0].samples[0].prompt
        yield [Comparison(prompt, [_nearest_to(place, places) for places in there], is_heldout) for place in leader]


def _nearest_to(place: Answers, places: Sequence[Answers]) -> Answers | None:
    """The one nearest to a step, of the same seed if there is one as near."""
    return min(
        places, key=lambda other: (abs(other.step - place.step), other.seed != place.seed, other.step), default=None
    )


def _nearest(candidates: Sequence[Comparison], num_prompts: int) -> list[Comparison]:
    best = sorted(_of_most_methods(candidates), key=lambda found: (found.distance, min(found.steps)))
    nearest = [found for found in best if found.distance == best[0].distance]
    pool = sorted(nearest if len(nearest) >= num_prompts else best[:num_prompts], key=lambda found: min(found.steps))
    if len(pool) <= num_prompts:
        return pool
    last = len(pool) - 1
    return [pool[place] for place in sorted({round(n * last / max(num_prompts - 1, 1)) for n in range(num_prompts)})]


def _of_most_methods(candidates: Sequence[Comparison]) -> list[Comparison]:
    most = max((len(found.steps) for found in candidates), default=0)
    return [found for found in candidates if len(found.steps) == most]
