"""Shows where a sampling job is: a live bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ada_lightning.rollout.fixed_weights import DrawCounts
from ada_lightning.run.terminal import duration

BAR_INTERVAL_S = 0.2
"""Shortest time between two updates of the bar, so that thousands of events cost nothing."""
LINE_INTERVAL_S = 30.0
"""Shortest time between two lines, where there is no terminal."""


class SamplingProgress:
    """Prompts done, responses, tokens per second, time left. A context manager: the bar is gone at its end.

    The time left goes by responses, because prompts that are half done count for half.

    Args:
        num_prompts: of the whole job.
        num_done: of them, stored by earlier starts.
        num_samples: responses per prompt.
        console: where to write; standard error unless given. Whether it is a terminal decides between bar and lines.
        now: clock in seconds.
    """

    def __init__(
        self,
        *,
        num_prompts: int,
        num_done: int,
        num_samples: int,
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._num_prompts = num_prompts
        self._num_done = num_done
        self._num_samples = num_samples
        self._console = console or Console(stderr=True)
        self._now = now
        self._started_at = self._shown_at = now()
        self._bar: Progress | None = None

    def __enter__(self) -> SamplingProgress:
        """Start the clock, and the bar."""
        self._started_at = self._shown_at = self._now()
        if self._console.is_terminal:
            columns = (TextColumn("prompts"), BarColumn(bar_width=20), MofNCompleteColumn())
            facts = TextColumn("{task.fields[facts]}")
            self._bar = Progress(*columns, facts, console=self._console, refresh_per_second=4, transient=True)
            self._bar.add_task("prompts", total=self._num_prompts, completed=self._num_done, facts="")
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Take the bar away."""
        if self._bar:
            self._bar.stop()
            self._bar = None

    def report(self, counts: DrawCounts) -> None:
        """Show how far it is. Called after every engine step, so mostly returns at once."""
        now = self._now()
        if now - self._shown_at < (BAR_INTERVAL_S if self._bar else LINE_INTERVAL_S):
            return
        self._shown_at = now
        done, facts = self._num_done + counts.num_prompts, self.facts(counts)
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=done, facts=facts)
        else:
            self._console.print(
                f"prompts {done}/{self._num_prompts}  {facts}", soft_wrap=True, highlight=False, markup=False
            )

    def facts(self, counts: DrawCounts) -> str:
        """Spell responses, speed and the time left."""
        seconds = max(self._now() - self._started_at, 1e-9)
        num_left = (self._num_prompts - self._num_done) * self._num_samples - counts.num_responses
        parts = [f"responses {counts.num_responses}", f"{counts.num_tokens / seconds:.0f} tokens/s"]
        if counts.num_responses:
            parts.append(f"left {duration(num_left * seconds / counts.num_responses)}")
        return "  ".join(parts)
