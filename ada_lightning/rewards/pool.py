"""Grades responses in processes of their own, so that no response can stall, crash or corrupt a run."""

from __future__ import annotations

import hashlib
import inspect
import logging
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

from pebble import ProcessExpired, ProcessPool

from ada_lightning.core.options import option
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards import worker
from ada_lightning.rewards.combined import with_parts
from ada_lightning.rewards.failures import lost
from ada_lightning.rewards.verdict_cache import CacheKey, VerdictCache
from ada_lightning.rewards.worker import Isolation

if TYPE_CHECKING:
    from ada_lightning.core.protocols import Reward

_LOG = logging.getLogger(__name__)
_START_LIMIT_S = 120.0
_PROMPTS_PER_CHECK = 64
_HEALTH_INTERVAL_S = 0.2
"""How often a waiting caller looks whether the processes' manager still lives."""


@dataclass(slots=True)
class _Pending:
    """A response on its way through the pool."""

    payload: bytes
    cache_key: CacheKey | None
    future: Future[tuple[Verdict, bool]] = field(default_factory=Future)
    was_resubmitted: bool = False
    """After the pool broke."""
    was_tried_again: bool = False
    """After a failure that may have been nobody's fault."""


@option("reward", "_pool", time_limit_s=10, memory_limit_gb=4)
class RewardPool:
    """Grades without blocking, in worker processes that are killed and replaced on a time-out or crash.

    Every ticket handed to :meth:`submit` comes back exactly once, from :meth:`poll` or :meth:`wait`, with a reward or
    with a failure, worth 0 or nothing: :mod:`~ada_lightning.rewards.failures` has the reasons. What may have been
    nobody's fault is tried once more, in a new worker where the response's own is gone.

    Workers start by fork from a small server process that has imported the reward's module and nothing of the
    trainer's: they inherit no model, no torch and no engine, ignore Ctrl-C and end with their parent. What the reward
    names in ``modules`` is imported there too, at the latest before a worker takes its first response. What a worker
    starts (a compiler, a REPL) may live on between responses and is killed with the worker, see
    :mod:`~ada_lightning.rewards.worker`. A replacement starts within milliseconds, plus the import of the program's
    main file, which therefore must import little and guard its work by ``if __name__ == "__main__"``. Used from one
    thread.

    Args:
        reward: picklable grader, sent to every worker once.
        num_workers: processes that grade at once; also how many requests are under way where the reward asks a
            server.
        time_limit_s: seconds for one response, counted from when a worker takes it. Detected within 0.2 s.
        memory_limit_gb: memory of one worker in gigabytes (10^9 bytes): its heap and private mappings. A process that
            the reward starts may have as much of its own. None sets no limit, which other systems than Linux need.
        cache_size: grades that are remembered, for responses that were graded before
            (:class:`~ada_lightning.rewards.verdict_cache.VerdictCache`), half a kilobyte each; 0 grades every response.
        output_file: where what the reward prints goes, appended; its folder is made at start. None drops it, as each
            response may print.

    Raises:
        ValueError: a number is not positive, the reward cannot be pickled, or this system cannot limit memory.
    """

    setting = "reward"
    """Node of the configuration that has its settings, for messages."""
    work: ClassVar[staticmethod[[bytes], tuple[Any, bool]]] = staticmethod(worker.grade)
    """What a worker does with a pickled ``(prompt, completion)``: its answer, and whether another try may differ."""

    def __init__(
        self,
        reward: Reward,
        *,
        num_workers: int = 1,
        time_limit_s: float = 10.0,
        memory_limit_gb: float | None = None,
        cache_size: int = 10_000,
        output_file: str | Path | None = None,
    ) -> None:
        if num_workers < 1:
            raise ValueError(f"{self.setting}.num_workers must be at least 1; got {num_workers}")
        if not 0 < time_limit_s < float("inf"):
            raise ValueError(f"{self.setting}.time_limit_s must be a positive number of seconds; got {time_limit_s}")
        if memory_limit_gb is not None and not 0 < memory_limit_gb < float("inf"):
            raise ValueError(
                f"{self.setting}.memory_limit_gb must be a positive number of gigabytes, or null; got {memory_limit_gb}"
            )
        if memory_limit_gb is not None and sys.platform != "linux":
            raise ValueError(f"{self.setting}.memory_limit_gb works on Linux only; use null on {sys.platform}")
        try:
            self._pickled_reward = pickle.dumps(reward)
        except Exception as error:  # pickling runs the reward's own code
            raise ValueError(
                f"the reward {type(reward).__name__} cannot be sent to worker processes: {error}. Define its class and "
                "functions at the top level of a module, without lambdas, locks or open files."
            ) from error
        self.reward = reward
        self.num_workers = num_workers
        self.time_limit_s = time_limit_s
        self.memory_limit_gb = memory_limit_gb
        self.output_file = None if output_file is None else Path(output_file)
        self._cache = VerdictCache(reward, size=cache_size)
        self._processes: ProcessPool | None = None
        self._pending: dict[Hashable, _Pending] = {}
        self._done: SimpleQueue[tuple[Hashable, Future[tuple[Verdict, bool]]]] = SimpleQueue()
        self._known: dict[Hashable, Verdict] = {}  # without a process: from the cache, or lost with a broken pool
        self._logged_failures: set[str] = set()

    @property
    def num_pending(self) -> int:
        """Tickets submitted and not yet returned."""
        return len(self._pending) + len(self._known)

    def settings(self) -> str:
        """Return a checksum of all that decides which prompts the reward refuses: its settings, and its code."""
        sources = sorted(Path(__file__).parent.rglob("*.py"))
        for part in with_parts(self.reward):
            if (file := inspect.getsourcefile(type(part))) is not None:
                sources.append(Path(file))
            functions = [getattr(value, "_function", None) for value in vars(part).values()]
            files = [inspect.getsourcefile(function) for function in functions if inspect.isfunction(function)]
            sources += [Path(file) for file in files if file is not None]
        code = [source.read_bytes() for source in sources if source.is_file()]
        return hashlib.sha256(b"".join([self._pickled_reward, *code])).hexdigest()

    def check(self) -> None:
        """Raise ValueError where the reward's own ``check`` does; starts no process."""
        check = getattr(self.reward, "check", None)
        if check is not None:
            check()

    def start(self) -> None:
        """Start the workers and load the reward in them, so that the first grade is as fast as the others. Idempotent.

        Raises:
            RuntimeError: a worker cannot load the reward, or does not answer.
        """
        if self._processes is not None:
            return
        if self.output_file is not None:
            self.output_file.parent.mkdir(parents=True, exist_ok=True)
        self._processes = self._new_processes()
        warm_ups = [
            self._processes.schedule(worker.load_error, timeout=_START_LIMIT_S) for _ in range(self.num_workers)
        ]
        try:
            errors = [warm_up.result(timeout=_START_LIMIT_S) for warm_up in warm_ups]
        except Exception as error:
            self.close()
            raise RuntimeError(
                f"{self.setting} workers did not start ({type(error).__name__}: {error}). Does the program's main file "
                f"guard its work by if __name__ == '__main__'? Does importing {type(self.reward).__module__!r} fail?"
            ) from error
        except BaseException:  # Ctrl-C
            self.close()
            raise
        if any(errors):
            self.close()
            raise RuntimeError(
                f"a worker of {self.setting} cannot load {type(self.reward).__name__}: {next(filter(None, errors))}"
            )

    def submit(self, ticket: Hashable, prompt: Prompt, completion: Completion) -> None:
        """Queue one response, which ``ticket`` names in the answer; returns at once.

        Raises:
            ValueError: the ticket is pending already.
            RuntimeError: the workers cannot start.
        """
        if ticket in self._pending or ticket in self._known:
            raise ValueError(f"ticket {ticket!r} is pending already; give every response a ticket of its own")
        cache_key = self._cache.key(prompt, completion)
        if (grade := self._cache.get(cache_key)) is not None:
            self._known[ticket] = grade
            return
        self.start()
        payload = pickle.dumps((prompt, completion), protocol=pickle.HIGHEST_PROTOCOL)
        self._schedule(ticket, _Pending(payload, cache_key))

    def check_references(self, prompts: Sequence[Prompt]) -> dict[int, str]:
        """Ask the reward which prompts it can never grade; starts the workers where the reward has an opinion.

        Returns:
            Why, by position; empty where the reward has no ``check_prompt``.

        Raises:
            RuntimeError: the workers cannot start, or broke for another reason than a prompt.
        """
        if not prompts or not callable(getattr(self.reward, "check_prompt", None)):
            return {}
        self.start()
        blocks = [
            range(i, min(i + _PROMPTS_PER_CHECK, len(prompts))) for i in range(0, len(prompts), _PROMPTS_PER_CHECK)
        ]
        errors = self._check_blocks(prompts, blocks)
        failed = [range(i, i + 1) for block, texts in errors.items() if isinstance(texts, str) for i in block]
        singly = self._check_blocks(prompts, failed)  # find the one that broke its block
        found: dict[int, str] = {}
        for block, texts in (errors | singly).items():
            if not isinstance(texts, str):
                found |= {index: text for index, text in zip(block, texts, strict=True) if text}
            elif len(block) == 1:
                found[block[0]] = texts
        return dict(sorted(found.items()))

    @contextmanager
    def checks_beside(self) -> Iterator[Callable[[Sequence[Prompt]], Mapping[int, str]]]:
        """Give another thread its own :meth:`check_references`, with a worker of its own that ends with the block."""
        pool = RewardPool(
            self.reward,
            time_limit_s=self.time_limit_s,
            memory_limit_gb=self.memory_limit_gb,
            cache_size=0,
            output_file=self.output_file,
        )
        try:
            yield pool.check_references
        finally:
            pool.close()

    def _check_blocks(self, prompts: Sequence[Prompt], blocks: Sequence[range]) -> dict[range, Sequence[str] | str]:
        """Return each block's errors by prompt, or as one text why there are none."""
        futures = {
            block: self._working().schedule(
                worker.check_prompts,
                args=(pickle.dumps([prompts[index] for index in block], protocol=pickle.HIGHEST_PROTOCOL),),
                timeout=self.time_limit_s,
            )
            for block in blocks
        }
        outcomes: dict[range, Sequence[str] | str] = {}
        for block, future in futures.items():
            error = future.exception()
            if isinstance(error, TimeoutError | ProcessExpired | MemoryError):
                outcomes[block] = lost(error).failure
            elif error is not None:
                raise RuntimeError(f"reward workers cannot check the prompts: {error}") from error
            else:
                outcomes[block] = future.result()
        return outcomes

    def poll(self) -> list[tuple[Hashable, Verdict]]:
        """Return what finished since the last call; never blocks."""
        if self._processes is not None:
            self._working()
        finished: list[tuple[Hashable, Verdict]] = []
        while True:
            try:
                ticket, future = self._done.get_nowait()
            except Empty:
                break
            finished += self._settle(ticket, future)
        finished += self._known.items()
        self._known.clear()
        return finished

    def wait(self, timeout_s: float) -> list[tuple[Hashable, Verdict]]:
        """Block until a response is graded; nothing where the time passed, or at once where nothing is pending."""
        deadline = time.monotonic() + timeout_s
        while True:
            finished = self.poll()
            remaining_s = deadline - time.monotonic()
            if finished or not self._pending or remaining_s <= 0:
                return finished
            try:
                done = self._done.get(timeout=min(remaining_s, _HEALTH_INTERVAL_S))
            except Empty:
                continue
            self._done.put(done)

    def discard_pending(self) -> None:
        """Forget every ticket that has not been returned, for a caller that repeats a step from its start."""
        abandoned = [pending.future for pending in self._pending.values()]
        self._pending.clear()
        self._known.clear()
        for future in abandoned:
            future.cancel()

    def close(self) -> None:
        """End the workers, whatever they are doing. Pending tickets are forgotten. Safe to call twice."""
        processes, self._processes = self._processes, None
        self._pending.clear()
        self._known.clear()
        self._done = SimpleQueue()
        if processes is not None:
            processes.stop()
            processes.join()

    def _new_processes(self) -> ProcessPool:
        context = multiprocessing.get_context("forkserver")
        # Workers import the program's main file again unless the server has it; Python 3.11's server ignores the wish.
        modules = getattr(self.reward, "modules", ())
        context.set_forkserver_preload(["__main__", worker.__name__, type(self.reward).__module__, *modules])
        return ProcessPool(
            max_workers=self.num_workers,
            initializer=worker.load_reward,
            initargs=(self._pickled_reward, self._isolation(), self.setting),
            context=context,
        )

    def _isolation(self) -> Isolation:
        limit = None if self.memory_limit_gb is None else int(self.memory_limit_gb * 1e9)
        return Isolation(os.getpid(), limit, None if self.output_file is None else str(self.output_file.absolute()))

    def _working(self) -> ProcessPool:
        """Return the processes, new ones where the last broke."""
        if self._processes is None or not self._processes.active:
            self._rebuild()
        assert self._processes is not None
        return self._processes

    def _schedule(self, ticket: Hashable, pending: _Pending) -> None:
        pending.future = self._working().schedule(self.work, args=(pending.payload,), timeout=self.time_limit_s)
        self._pending[ticket] = pending
        pending.future.add_done_callback(partial(_announce, self._done, ticket))

    def _settle(self, ticket: Hashable, future: Future[tuple[Verdict, bool]]) -> list[tuple[Hashable, Verdict]]:
        """Turn a finished future into a grade; nothing where the ticket was discarded or is tried again."""
        pending = self._pending.get(ticket)
        if pending is None or pending.future is not future:
            return []
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            self._rebuild()
            return []
        del self._pending[ticket]
        grade, may_succeed = future.result() if error is None else (lost(error, self.setting), True)
        if may_succeed and not pending.was_tried_again:
            pending.was_tried_again = True
            self._schedule(ticket, pending)
            return []
        if grade.failure:
            self._log_once(grade)
        self._cache.put(pending.cache_key, grade)
        return [(ticket, grade)]

    def _rebuild(self) -> None:
        """Replace a broken pool. What was pending gets one more chance, and is then left out."""
        _LOG.warning(
            "The pool of %s workers broke with %d responses pending; starting a new one.",
            self.setting,
            len(self._pending),
        )
        if self._processes is not None:
            self._processes.stop()
            self._processes.join()
        unfinished, self._pending = self._pending, {}
        self._done = SimpleQueue()
        self._processes = self._new_processes()
        for ticket, pending in unfinished.items():
            if pending.future.done() and pending.future.exception() is None:
                self._known[ticket], _ = pending.future.result()
            elif pending.was_resubmitted:
                self._known[ticket] = Verdict(
                    None, failure="pool_broken", detail=f"the pool of {self.setting} workers broke twice"
                )
            else:
                pending.was_resubmitted = True
                self._schedule(ticket, pending)

    def _log_once(self, grade: Verdict) -> None:
        if grade.failure not in self._logged_failures:
            self._logged_failures.add(grade.failure)
            _LOG.warning(
                "A response could not be graded (%s); further ones are only counted.\n%s", grade.failure, grade.detail
            )


def _announce(
    done: SimpleQueue[tuple[Hashable, Future[tuple[Verdict, bool]]]], ticket: Hashable, future: Future
) -> None:
    """Runs in pebble's thread: hand the future over and nothing else."""
    done.put((ticket, future))
