"""The jobs of a sweep: each runs whatever became of the others, and the end names those that failed."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable

from hydra.errors import CompactHydraException

from ada_lightning.run.run_dir import RunCompleteError
from ada_lightning.run.terminal import begin_job


class JobError(Exception):
    """A training job was refused or stopped. Its text is for people: what was wrong, the way out."""


class SweepJobError(CompactHydraException):
    """A job of a sweep failed. Hydra keeps it, runs the other jobs and then prints it without a traceback."""


class Sweep:
    """Counts the jobs that this process runs one after the other, and remembers why some failed."""

    def __init__(self) -> None:
        self.num_planned = 0
        """Jobs of the sweep, where that is known before the first starts."""
        self.swept: set[str] = set()
        """Settings in which its jobs differ, by dotted key, where they are known before the first starts."""
        self.way_on = ""
        """Command that continues it."""
        self._num_jobs = 0
        self._done: dict[str, float | None] = {}
        self._failed: dict[str, str] = {}

    def run(self, job: Callable[[], float | None], name: str) -> float | None:
        """Run a job, by its run's name and what tells it from the others.

        What ends the whole process, as Ctrl-C and signals do, ends the sweep too.

        Returns:
            Held-out avg@k, as the job returns it; for a run that is complete already, as it did when it finished.

        Raises:
            SweepJobError: the job failed.
        """
        self._num_jobs += 1
        begin_job()
        try:
            try:
                average = job()
            except RunCompleteError as complete:
                print(f"{name}: {complete}", flush=True)
                average = complete.average
            self._done[name] = average
            return average
        except JobError as error:
            reason = str(error)
        except Exception as error:
            traceback.print_exc()
            reason = f"error: {type(error).__name__}: {error}"
        self._failed[name] = reason
        print(f"{name}: {reason}", file=sys.stderr, flush=True)
        gc.collect()  # what the job leaves in cycles; the next one wants the memory
        # Raised out here, without the context whose frames would keep the failed job's model until the sweep's end.
        raise SweepJobError(f"{name}: {reason}")

    def report(self) -> None:
        """Say what the jobs came to; on stderr which failed, and how a sweep goes on that ended early."""
        averages = {name: average for name, average in self._done.items() if average is not None}
        if len(averages) > 1:
            ranked = sorted(averages, key=lambda name: averages[name], reverse=True)
            lines = [f"  {averages[name]:.3f}  {name}" for name in ranked]
            print("\n".join(["held-out avg@k of the jobs, highest first:", *lines]), flush=True)
        num_ended = len(self._done) + len(self._failed)
        if self._num_jobs and num_ended < max(self._num_jobs, self.num_planned):
            of_all = f" of {self.num_planned}" if self.num_planned else ""
            done = ", ".join(name.partition(" (")[0] for name in self._done) or "none"
            ended = f"the sweep was interrupted; {len(self._done)}{of_all} jobs are done: {done}"
            print(f"{ended}\ncontinue it with: {self.way_on}", file=sys.stderr, flush=True)
        if self._failed:
            lines = [f"{len(self._failed)} of the {self._num_jobs} jobs of the sweep failed:"]
            lines += [f"  {name}: {reason}" for name, reason in self._failed.items()]
            print("\n".join(lines), file=sys.stderr, flush=True)
