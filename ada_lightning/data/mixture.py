"""Prompts of several sources, each with its share."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ada_lightning.core.protocols import PromptSource
from ada_lightning.core.records import Prompt
from ada_lightning.data.prompts import largest_remainder, same_text
from ada_lightning.data.report import ReadingReport

_KEYS = {"source", "weight"}
_LONG_EPOCH = 10_000_000
"""Prompts of an epoch. More are refused, unless they are at most ten times those that there are."""


class MixtureSource:
    """Combines sources by weight. Every prompt's ``task`` is the name of its source.

    **What a weight is.** An epoch is the shortest list in which every training prompt occurs at least once and each
    source has its share. With ``n_i`` prompts and share ``w_i`` (its weight over the sum of weights), it has ``E =
    ceil(max n_i / w_i)`` entries, ``round(E w_i)`` of them (by largest remainder) from source i. So the source that is
    largest for its weight is seen once in an epoch. The prompts of the others are seen several times: all ``k`` times,
    and some, drawn by the seed, once more. The data module shuffles an epoch and cuts it into steps: shares are exact
    in an epoch and hold on average in a step. They count usable prompts: prompts that are too long or have no usable
    answer are left out before.

    A weight of 0 makes a source one of held-out prompts only. A prompt that two sources have, with the same text or the
    same id, belongs to the first; a training prompt that another source holds out is left out of training. Both are
    counted. Held-out prompts are interleaved, so that the first k contain every source in proportion.

    Args:
        sources: ``{name: {source: ..., weight: ...}}``; weight is 1 where it is left out.
        seed: of the draw of prompts that occur once more.

    Raises:
        ValueError: no source to train on, a weight that is negative or no number, something else than the two keys, or
            a mixture within a mixture.
    """

    def __init__(self, sources: Mapping[str, Mapping[str, Any]], *, seed: int) -> None:
        if not sources:
            raise ValueError(
                "data.source.sources is empty; name each source: {math: {source: {_target_: ...}, weight: 2}, ...}"
            )
        self.sources: dict[str, PromptSource] = {}
        self.weights: dict[str, float] = {}
        for name, entry in sources.items():
            if not isinstance(entry, Mapping) or not {"source"} <= set(entry) <= _KEYS:
                found = ", ".join(entry) if isinstance(entry, Mapping) else type(entry).__name__
                raise ValueError(f"data.source.sources.{name} needs a source and may have a weight; found {found}")
            weight = entry.get("weight", 1.0)
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < math.inf:
                raise ValueError(f"data.source.sources.{name}.weight must be a number of at least 0; got {weight!r}")
            if isinstance(entry["source"], (str, Mapping)):
                raise ValueError(
                    f"data.source.sources.{name}.source is no source; it needs a _target_, such as "
                    f"ada_lightning.data.dataset.DatasetSource; got {entry['source']}"
                )
            if isinstance(entry["source"], MixtureSource):
                raise ValueError(
                    f"data.source.sources.{name} is a mixture itself, and its weights would have no effect; name its "
                    f"sources here, each with its weight times that of {name}"
                )
            self.sources[str(name)] = entry["source"]
            self.weights[str(name)] = float(weight)
        if not any(self.weights.values()):
            raise ValueError("every weight in data.source.sources is 0: there is nothing to train on")
        self.seed = seed
        self._notes: list[str] = []

    @property
    def reports(self) -> list[ReadingReport]:
        """Reports of the sources that have some."""
        self.heldout_prompts()
        return [report for source in self.sources.values() for report in getattr(source, "reports", ())]

    @property
    def notes(self) -> list[str]:
        """What mixing left out."""
        self.heldout_prompts()
        return self._notes

    def train_prompts(self) -> Sequence[Prompt]:
        """Every prompt to learn from, once; :meth:`epoch` repeats them."""
        return self._split[0]

    def heldout_prompts(self) -> Sequence[Prompt]:
        """Prompts to evaluate on, sources interleaved; none of them is a training prompt of any source."""
        return self._split[1]

    def epoch(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Return the usable training prompts of an epoch, each as often as the weights demand.

        Raises:
            ValueError: none of the prompts of a source is usable, or a weight makes it too long for memory.
        """
        by_task: dict[str, list[Prompt]] = {name: [] for name, weight in self.weights.items() if weight}
        for prompt in prompts:
            by_task[prompt.task].append(prompt)
        if starved := [name for name, found in by_task.items() if not found]:
            raise ValueError(
                f"no usable training prompt is left in the sources {', '.join(starved)}, which have weights; see the "
                "reasons in the report, or take them out of data.source.sources"
            )
        total = sum(self.weights.values())
        size, longest = max(
            (math.ceil(len(found) * total / self.weights[name] - 1e-9), name) for name, found in by_task.items()
        )
        if size > max(_LONG_EPOCH, 10 * len(prompts)):
            raise ValueError(
                f"data.source.sources.{longest}.weight = {self.weights[longest]} makes an epoch of {size:,} prompts, "
                f"in which each of its {len(by_task[longest])} occurs; raise it, or use 0 for held-out prompts only"
            )
        epoch: list[Prompt] = []
        for name, count in largest_remainder(size, {name: self.weights[name] for name in by_task}).items():
            found = by_task[name]
            repeats, left = divmod(count, len(found))
            drawn = sorted(random.Random(f"{self.seed}/{name}").sample(range(len(found)), left))
            epoch += [*found * repeats, *(found[index] for index in drawn)]
        return epoch

    def place_of(self, prompt_id: str) -> str | None:
        """Find where a prompt stands, for messages."""
        found = (source.place_of(prompt_id) for source in self.sources.values() if hasattr(source, "place_of"))
        return next(filter(None, found), None)

    def check(self) -> None:
        """Let every source check itself, and combine them. No model is needed for it.

        Raises:
            ValueError: what a source finds, with its name; or no training prompt is left of one.
        """
        self.epoch(self.train_prompts())

    @cached_property
    def _split(self) -> tuple[list[Prompt], list[Prompt]]:
        train: dict[str, list[Prompt]] = {}
        heldout: dict[str, list[Prompt]] = {}
        for name, source in self.sources.items():
            try:
                if self.weights[name] and callable(check := getattr(source, "check", None)):
                    check()
                train[name] = _renamed(source.train_prompts(), name) if self.weights[name] else []
                heldout[name] = _renamed(source.heldout_prompts(), name)
            except ValueError as error:
                raise ValueError(f"data.source.sources.{name}: {error}") from error
        self._notes = []
        self._drop_seen(heldout, set(), "held-out prompts of {name} are those of an earlier source too")
        held = {key for found in heldout.values() for prompt in found for key in _keys(prompt)}
        self._drop_seen(train, held, "training prompts of {name} are held out or those of an earlier source too")
        return [prompt for found in train.values() for prompt in found], _interleaved(heldout)

    def _drop_seen(self, by_name: dict[str, list[Prompt]], seen: set[Any], message: str) -> None:
        for name, prompts in by_name.items():
            kept = [prompt for prompt in prompts if seen.isdisjoint(_keys(prompt))]
            if len(kept) < len(prompts):
                self._notes.append(f"{len(prompts) - len(kept)} {message.format(name=name)}, and are left out")
            seen |= {key for prompt in kept for key in _keys(prompt)}
            by_name[name] = kept


def _renamed(prompts: Sequence[Prompt], name: str) -> list[Prompt]:
    return [replace(prompt, task=name) for prompt in prompts]


def _keys(prompt: Prompt) -> tuple[Any, Any]:
    return prompt.prompt_id, same_text(prompt)


def _interleaved(by_name: Mapping[str, Sequence[Prompt]]) -> list[Prompt]:
    places = [
        ((index + 0.5) / len(prompts), prompt) for prompts in by_name.values() for index, prompt in enumerate(prompts)
    ]
    return [prompt for _, prompt in sorted(places, key=lambda place: place[0])]
