"""What became of the rows of a data set on their way to prompts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ada_lightning.core.records import Prompt

_MAX_EXAMPLES = 5


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
    notes: list[str] = field(default_factory=list)

    @property
    def num_kept(self) -> int:
        """Rows that became prompts."""
        return self.num_read - self.dropped.total()

    def drop(self, reason: str, example: str | None = None) -> None:
        """Count one row."""
        self.dropped[reason] += 1
        examples = self.examples.setdefault(reason, [])
        if example is not None and len(examples) < _MAX_EXAMPLES:
            examples.append(example)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "origin": self.origin,
            "layout": self.layout,
            "read": self.num_read,
            "dropped": dict(self.dropped),
            "kept": self.num_kept,
            "examples": {reason: found for reason, found in self.examples.items() if found},
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """Return the report as it is printed."""
        counts = "".join(f"  {reason} {count}" for reason, count in self.dropped.items())
        first = [f"    {reason}, for example {found[0]}" for reason, found in self.examples.items() if found]
        layout = f" ({self.layout})" if self.layout else ""
        return [
            f"data: {self.origin}{layout}",
            f"  read {self.num_read}{counts}  kept {self.num_kept}",
            *first,
            *(f"    {note}" for note in self.notes),
        ]


class DataReport:
    """What became of the prompts of a run: read from files, dropped and why, kept, by split and by task."""

    def __init__(self, reading: Sequence[ReadingReport] = (), notes: Sequence[str] = ()) -> None:
        self.reading = list(reading)
        self.notes = list(notes)
        self.dropped: dict[str, list[dict[str, str]]] = {"train": [], "heldout": []}
        self.kept: dict[str, Counter[str]] = {"train": Counter(), "heldout": Counter()}
        self.shown: Counter[str] = Counter()
        """Training prompts of an epoch by task."""

    def drop(self, split: str, reason: str, prompts: Sequence[tuple[Prompt, str]]) -> None:
        """Enter prompts of a split that are counted as ``too long``, say, each with what is to be said of it."""
        self.dropped[split] += [
            {"prompt_id": prompt.prompt_id, "task": prompt.task, "reason": reason, "detail": detail}
            for prompt, detail in prompts
        ]

    def keep(self, split: str, prompts: Sequence[Prompt]) -> None:
        """Enter the distinct prompts that are left, in place of what was entered before."""
        self.kept[split] = Counter(prompt.task for prompt in prompts)

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
                "dropped_prompts": self.dropped[split],
            }
            for split in self.kept
        }
        reading = [report.as_dict() for report in self.reading]
        return {"reading": reading, "notes": self.notes, **splits, "epoch_by_task": dict(self.shown)}

    def text(self) -> str:
        """Return the report as it is printed."""
        lines = [line for report in self.reading for line in report.lines()]
        lines += [f"data: {note}" for note in self.notes]
        for split, name in (("train", "to train on"), ("heldout", "held out")):
            counts = self.kept[split]
            by_task = f" ({', '.join(f'{task} {count}' for task, count in counts.items())})" if len(counts) > 1 else ""
            dropped = "".join(f"  {reason} {count}" for reason, count in self._counts(split).items())
            lines.append(f"prompts {name}: {counts.total()}{by_task}{f'  dropped:{dropped}' if dropped else ''}")
            lines += [f"    {reason}, for example {detail}" for reason, detail in self._first_details(split).items()]
        if self.shown != self.kept["train"]:
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

    def _first_details(self, split: str) -> dict[str, str]:
        details: dict[str, str] = {}
        for entry in self.dropped[split]:
            details.setdefault(entry["reason"], f"{entry['prompt_id']}: {entry['detail']}")
        return details
