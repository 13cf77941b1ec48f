"""Draws a fixed number of responses of each prompt into a store, and goes on where an earlier start left off."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ada_lightning.analysis.offline.response_store import ResponseStore
from ada_lightning.core.records import Prompt, SamplingSettings
from ada_lightning.rollout.fixed_weights import DrawCounts, DrawnPrompt, draw
from ada_lightning.rollout.service import RolloutService
from ada_lightning.run.stopping import SamplingStoppedError
from ada_lightning.run.terminal import duration

BAR_INTERVAL_S = 0.2
"""Shortest time between two updates of the bar, so that thousands of events cost nothing."""
LINE_INTERVAL_S = 30.0
"""Shortest time between two lines, where there is no terminal."""


class SamplingJob:
    """k responses per prompt of weights that do not change.

    The list is worked off in one stream that keeps the engine full to its end; every ``prompts_per_file`` finished
    prompts are written while it goes on. So a kill loses the prompts in flight and fewer than ``prompts_per_file``
    finished ones, and no engine ever waits for the end of a part. The seed of a response is made of its place in the
    whole list, so an interrupted job ends with the very table of one that was not.

    Args:
        prompts: encoded; the whole list, in an order that is the same at every start.
        num_samples: responses per prompt.
        store: claimed.
        service: open before :meth:`run` where prompts are pending.
        stage: part of every seed.
        sampling: how tokens are drawn; those of training if not given.
        prompts_per_file: finished prompts that are written at once.
        console: for the progress display.

    Raises:
        ValueError: a number below 1, or the store holds prompts that are not in the list.
    """

    def __init__(
        self,
        *,
        prompts: Sequence[Prompt],
        num_samples: int,
        store: ResponseStore,
        service: RolloutService,
        stage: str,
        sampling: SamplingSettings | None = None,
        prompts_per_file: int = 64,
        console: Console | None = None,
    ) -> None:
        if num_samples < 1 or prompts_per_file < 1:
            raise ValueError(
                f"num_samples and prompts_per_file must be at least 1; got {num_samples}, {prompts_per_file}"
            )
        self._prompts = prompts
        self._num_samples = num_samples
        self._store = store
        self._service = service
        self._stage = stage
        self._sampling = sampling
        self._prompts_per_file = prompts_per_file
        self._console = console
        finished = store.finished()
        self._pending = [place for place in enumerate(prompts) if (place[0], place[1].prompt_id) not in finished]
        if len(prompts) - len(self._pending) < len(finished):
            raise ValueError(
                f"{store.folder} holds {len(finished)} prompts, and not all of them are in the list of {len(prompts)}; "
                "choose a new folder: run_name=<new name>"
            )

    @property
    def num_pending(self) -> int:
        """Prompts that are not stored yet; 0 needs no engine."""
        return len(self._pending)

    def run(self, interrupt_check: Callable[[], None] = lambda: None) -> None:
        """Draw what is pending.

        Args:
            interrupt_check: called between engine steps; a KeyboardInterrupt raised by it stops the job.

        Raises:
            SamplingStoppedError: it was interrupted, and every finished prompt is stored; or the disk takes no more.
            EngineError: the engine broke for good; every finished prompt is stored.
        """
        if not self._pending:
            return
        try:
            self._draw(interrupt_check)
        except KeyboardInterrupt as error:
            raise SamplingStoppedError(f"{str(error) or 'interrupted'}: {self._state()}") from error

    def _draw(self, interrupt_check: Callable[[], None]) -> None:
        display = SamplingProgress(
            num_prompts=len(self._prompts),
            num_done=len(self._prompts) - len(self._pending),
            num_samples=self._num_samples,
            console=self._console,
        )
        stream = draw(
            self._service,
            self._pending,
            num_samples=self._num_samples,
            stage=self._stage,
            sampling=self._sampling,
            has_graded=len(self._pending) < len(self._prompts),  # nothing is stored before that
            report=display.report,
            interrupt_check=interrupt_check,
        )
        unwritten: list[DrawnPrompt] = []
        try:
            with display, closing(stream):
                for drawn in stream:
                    unwritten.append(drawn)
                    if len(unwritten) >= self._prompts_per_file:
                        self._write(unwritten)
        finally:
            self._write(unwritten)

    def _state(self) -> str:
        return (
            f"{len(self._prompts) - len(self._pending)} of {len(self._prompts)} prompts are stored in "
            f"{self._store.folder}; the same command again continues there"
        )

    def _write(self, unwritten: list[DrawnPrompt]) -> None:
        if not unwritten:
            return
        try:
            self._store.append(unwritten)
        except OSError as error:
            reason = f"{len(unwritten)} finished prompts could not be written ({error.strerror or error})"
            raise SamplingStoppedError(f"{reason}: {self._state()}") from error
        written = {drawn.position for drawn in unwritten}
        self._pending = [place for place in self._pending if place[0] not in written]
        unwritten.clear()


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
