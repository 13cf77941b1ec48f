"""Counts the rows of a data set that became prompts, and those that were dropped, with the reasons."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ada_lightning.core.checks import kind_of
from ada_lightning.core.records import Prompt

_MAX_EXAMPLES = 5
_MAX_KINDS = 8
"""Kinds that are printed of a reason; the file has all."""


@dataclass(slots=True)
class Kind:
    """Rows that share a fault, or a change."""

    count: int
    example: str
    """The first of them."""


@dataclass(slots=True)
class ReadingReport:
    """Counts of one set of files, by what became of the rows, with the first examples of each reason."""

    origin: str
    """What was read."""
    layout: str = ""
    """Which column is what."""
    num_read: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Rows by reason, in the order in which the reasons came up."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    kinds: dict[str, dict[str, Kind]] = field(default_factory=dict)
    """Rows by reason and by kind of it."""
    changes: dict[str, Kind] = field(default_factory=dict)
    """Prompts that were not taken as they stand, by what was changed or is not shown to the model."""
    notes: list[str] = field(default_factory=list)

    @property
    def num_kept(self) -> int:
        """Rows that became prompts."""
        return self.num_read - self.dropped.total()

    def drop(self, reason: str, where: str = "", message: str = "", *, count: int = 1) -> None:
        """Count a row or several, with what is wrong with it if its reason does not say it."""
        self.dropped[reason] += count
        examples = self.examples.setdefault(reason, [])
        if not message:
            return
        _enter(self.kinds.setdefault(reason, {}), kind_of(message), f"{where}: {message}")
        if len(examples) < _MAX_EXAMPLES:
            examples.append(f"{where}: {message}")

    def change(self, what: str, where: str) -> None:
        """Count one prompt that was not taken as it stands."""
        _enter(self.changes, what, where)

    def state_dict(self) -> dict[str, Any]:
        """All counts, as JSON holds them, for a stream that is read on."""
        kinds = {reason: _as_dicts(found) for reason, found in self.kinds.items()}
        counts = {"num_read": self.num_read, "dropped": dict(self.dropped), "changes": _as_dicts(self.changes)}
        return {**counts, "examples": self.examples, "kinds": kinds, "notes": self.notes}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.num_read, self.dropped = state["num_read"], Counter(state["dropped"])
        self.examples = {reason: list(found) for reason, found in state["examples"].items()}
        self.kinds = {reason: _from_dicts(found) for reason, found in state["kinds"].items()}
        self.changes, self.notes = _from_dicts(state["changes"]), list(state["notes"])

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "origin": self.origin,
            "layout": self.layout,
            "read": self.num_read,
            "dropped": dict(self.dropped),
            "kept": self.num_kept,
            "examples": {reason: found for reason, found in self.examples.items() if found},
            "kinds": _as_lists(self.kinds),
            "changed": {what: {"count": kind.count, "first": kind.example} for what, kind in self.changes.items()},
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """Return the report as it is printed."""
        layout = f" ({self.layout})" if self.layout else ""
        return [
            f"data: {self.origin}{layout}",
            f"  {self.num_read} rows read, {self.num_kept} kept{_dropped(self.dropped)}",
            *_kind_lines(self.kinds),
            *(f"    {kind.count} prompts: {what} (first: {kind.example})" for what, kind in self.changes.items()),
            *(f"    {note}" for note in self.notes),
        ]


def _dropped(counts: Counter[str]) -> str:
    """Spell how many were dropped for each reason; empty where none was."""
    text = ", ".join(f"{reason} {count}" for reason, count in counts.items())
    return f"; dropped: {text}" if text else ""


def _enter(kinds: dict[str, Kind], name: str, example: str) -> None:
    if name in kinds:
        kinds[name].count += 1
    else:
        kinds[name] = Kind(1, example)


def _as_lists(kinds: Mapping[str, Mapping[str, Kind]]) -> dict[str, list[dict[str, Any]]]:
    return {reason: [asdict(kind) for kind in found.values()] for reason, found in kinds.items()}


def _as_dicts(kinds: Mapping[str, Kind]) -> dict[str, dict[str, Any]]:
    return {name: asdict(kind) for name, kind in kinds.items()}


def _from_dicts(plain: Mapping[str, Mapping[str, Any]]) -> dict[str, Kind]:
    return {name: Kind(**kind) for name, kind in plain.items()}


def _kind_lines(kinds: Mapping[str, Mapping[str, Kind]]) -> list[str]:
    """A line for each kind of each reason, most frequent first."""
    lines = []
    for reason, found in kinds.items():
        ordered = sorted(found.values(), key=lambda kind: -kind.count)
        lines += [f"    {reason} {kind.count}, for example {kind.example}" for kind in ordered[:_MAX_KINDS]]
        if more := ordered[_MAX_KINDS:]:
            lines.append(f"    {reason} {sum(kind.count for kind in more)} of {len(more)} more kinds")
    return lines


class DataReport:
    """What became of the prompts of a run: read from files, dropped and why, kept, by split and by task."""

    def __init__(self, reading: Sequence[ReadingReport] = (), notes: Sequence[str] = ()) -> None:
        self.reading = list(reading)
        self.notes = list(notes)
        self.dropped: dict[str, list[dict[str, str]]] = {"train": [], "heldout": []}
        self.kept: dict[str, Counter[str]] = {"train": Counter(), "heldout": Counter()}
        self.num_looked_at = self.num_to_look_at = 0
        """Training prompts of a large data set that were encoded and checked, of how many; 0 of 0 where all were."""
        self.shown: Counter[str] = Counter()
        """Training prompts of an epoch by task."""
        self.is_stream = False

    def drop(self, split: str, reason: str, prompts: Sequence[tuple[Prompt, str]]) -> None:
        """Enter prompts of a split that are counted as ``too long``, say, each with what is to be said of it."""
        self.dropped[split] += [
            {"prompt_id": prompt.prompt_id, "task": prompt.task, "reason": reason, "detail": detail}
            for prompt, detail in prompts
        ]

    def keep(self, split: str, prompts: Sequence[Prompt]) -> None:
        """Enter the distinct prompts that are left, in place of what was entered before."""
        self.kept[split] = Counter(prompt.task for prompt in prompts)

    def keep_counts(self, split: str, by_task: Counter[str], num_looked_at: int) -> None:
        """Enter how many prompts of a large data set each task has, and how many were looked at."""
        self.kept[split] = by_task - Counter(entry["task"] for entry in self.dropped[split])
        self.num_looked_at = num_looked_at
        self.num_to_look_at = by_task.total()

    def keep_stream(self, by_task: Counter[str]) -> None:
        """Enter the counter of a stream's usable prompts, which goes on counting."""
        self.kept["train"], self.is_stream = by_task, True

    def epoch_counts(self, by_task: Counter[str]) -> None:
        """Enter how many prompts each task has in an epoch of a large data set."""
        self.shown = self.kept["train"] if by_task == self.kept["train"] else by_task

    def epoch(self, prompts: Sequence[Prompt]) -> None:
        """Enter the training prompts of an epoch, repeated ones as often as they are shown."""
        self.shown = Counter(prompt.task for prompt in prompts)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        splits = {
            split: {
                "dropped": self._counts(split),
                "kept": self.kept[split].total(),
                "kept_by_task": dict(self.kept[split]),
                "kinds": _as_lists(self._kinds(split)),
                "dropped_prompts": self.dropped[split],
            }
            for split in self.kept
        }
        reading = [report.as_dict() for report in self.reading]
        if self.num_to_look_at:
            splits["train"] |= {"looked_at": self.num_looked_at, "of": self.num_to_look_at}
        return {"reading": reading, "notes": self.notes, **splits, "epoch_by_task": dict(self.shown)}

    def text(self) -> str:
        """Return the report as it is printed."""
        lines = [line for report in self.reading for line in report.lines()]
        lines += [f"data: {note}" for note in self.notes]
        for split, name in (("train", "to train on"), ("heldout", "held out")):
            counts = self.kept[split]
            by_task = f" ({', '.join(f'{task} {count}' for task, count in counts.items())})" if len(counts) > 1 else ""
            lines.append(f"prompts {name}: {counts.total()}{by_task}{_dropped(self._counts(split))}")
            lines += _kind_lines(self._kinds(split))
        if self.is_stream:
            lines.append(
                "data: a stream, of which these are the first rows. Others are read when a step takes them, and the "
                "run's data_report.json then counts them"
            )
        elif self.num_looked_at < self.num_to_look_at:
            lines.append(
                f"data: {self.num_looked_at} of {self.num_to_look_at} training prompts are encoded and checked so far; "
                "the others follow when a step takes them and in the background, and the run's data_report.json then "
                "counts them. One that cannot be used is replaced by the next"
            )
        elif self.shown != self.kept["train"]:
            size = self.shown.total()
            shares = ", ".join(f"{task} {count} ({count / size:.1%})" for task, count in self.shown.items())
            lines.append(f"an epoch shows {size} prompts: {shares}")
        return "\n".join(lines)

    def write(self, folder: Path) -> None:
        """Keep it as ``data_report.json`` in a run's folder."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.as_dict(), indent=1, ensure_ascii=False)
        (folder / "data_report.json").write_text(text + "\n", encoding="utf-8")

    def _counts(self, split: str) -> Counter[str]:
        return Counter(entry["reason"] for entry in self.dropped[split])

    def _kinds(self, split: str) -> dict[str, dict[str, Kind]]:
        """Dropped prompts by reason and by kind of it."""
        found: dict[str, dict[str, Kind]] = {}
        for entry in self.dropped[split]:
            kinds = found.setdefault(entry["reason"], {})
            _enter(kinds, kind_of(entry["detail"]), f"{entry['prompt_id']}: {entry['detail']}")
        return found
