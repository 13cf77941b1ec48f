"""Seconds of one engine step, as a function of what runs in it."""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ada_lightning.core.records import Outcome
from research.scripted import NEGATIVE_TOKEN, POSITIVE_TOKEN


@dataclass(frozen=True)
class StepTime:
    """A curve over the number of running sequences, plus what context and admissions add.

    ``seconds(step) = base(running) + context_s x context tokens + prompt_token_s x uncached prompt tokens
    + admission_s x sequences admitted``, where context tokens are summed over the running sequences. Linear in the
    context, so that many steps with the same sequences have a closed form.
    """

    sizes: tuple[int, ...]
    base_s: tuple[float, ...]
    context_s: float
    prompt_token_s: float
    admission_s: float
    _table: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    def base(self, num_running: int) -> float:
        """Seconds of a step without context: linear between the known sizes, and beyond them."""
        if num_running not in self._table:
            right = min(max(bisect_left(self.sizes, num_running), 1), len(self.sizes) - 1)
            (x0, x1), (y0, y1) = self.sizes[right - 1 : right + 1], self.base_s[right - 1 : right + 1]
            self._table[num_running] = y0 + (y1 - y0) * (num_running - x0) / (x1 - x0)
        return self._table[num_running]

    def steps(self, num_steps: int, num_running: int, context: int) -> float:
        """Seconds of ``num_steps`` steps with the same sequences, each of which grows by a token in every step."""
        total_context = num_steps * context + num_running * (num_steps * (num_steps - 1) // 2)
        return num_steps * self.base(num_running) + self.context_s * total_context

    def admission(self, num_admitted: int, num_prompt_tokens: int) -> float:
        """Seconds that admissions add to a step, of which ``num_prompt_tokens`` prompt tokens have to be computed."""
        return self.admission_s * num_admitted + self.prompt_token_s * num_prompt_tokens


@dataclass(frozen=True, slots=True)
class Fate:
    """What will become of one request."""

    num_tokens: int
    """Response length, the end-of-sequence token included."""
    is_positive: bool
    is_truncated: bool
    """The response would have gone on."""

    def generation(self, request_id: str) -> Outcome:
        """What the engine returns: a first token that tells the verdict, then padding."""
        return Outcome(
            text="",
            request_id=request_id,
            response_ids=_tokens(POSITIVE_TOKEN if self.is_positive else NEGATIVE_TOKEN, self.num_tokens),
            sampling_logprobs=(),
            is_truncated=self.is_truncated,
        )


@dataclass(frozen=True)
class Fates:
    """Draws fates: a coin with the prompt's pass rate, then a lognormal length, cut at the limit."""

    pass_rates: Mapping[int, float]
    median_tokens: float
    sigma: float
    wrong_length_ratio: float = 1.0

    def draw(self, prompt_ids: Sequence[int], max_new_tokens: int, seed: int) -> Fate:
        """Decide one response."""
        generator = random.Random(seed)
        is_positive = generator.random() < self.pass_rates[prompt_ids[0]]
        median = self.median_tokens * (1.0 if is_positive else self.wrong_length_ratio)
        length = max(1, round(median * math.exp(self.sigma * generator.gauss(0, 1))))
        return Fate(min(length, max_new_tokens), is_positive, length > max_new_tokens)


@lru_cache(maxsize=8192)  # responses of one length and verdict share their tokens: memory, not meaning
def _tokens(verdict: int, num_tokens: int) -> tuple[int, ...]:
    return (verdict,) + (0,) * (num_tokens - 1)


@dataclass(frozen=True, slots=True)
class Request:
    """One response to generate."""

    request_id: str
    prompt_ids: tuple[int, ...]
    fate: Fate


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time with the same sequences running."""

    start_s: float
    end_s: float
    num_running: int


class Replica:
    """Decodes its running sequences in lockstep, one token for each per step.

    A step begins by admitting queued requests, in the order submitted, while slots are free and the step's token
    budget holds whole prompts (as the CPU engine runs, without chunked prefill); an admitted request gets its first
    token in that step. Between admissions and completions nothing changes, so whole stretches of steps are done at
    once. KV memory is taken to suffice.
    """

    def __init__(
        self, step_time: StepTime, *, max_num_seqs: int, block_size: int, max_batched_tokens: int, jump: bool = True
    ) -> None:
        self.now = 0.0
        """End of the last step, in seconds."""
        self.spans: list[Span] = []
        self._step_time = step_time
        self._max_num_seqs = max_num_seqs
        self._block_size = block_size
        self._max_batched_tokens = max_batched_tokens
        self._jump = jump
        self._num_steps = 0
        self._context = 0
        self._waiting: deque[Request] = deque()
        self._running: dict[str, tuple[Request, int]] = {}
        self._finishing: list[tuple[int, int, Request]] = []
        self._num_admitted = 0
        self._cached: set[tuple[int, ...]] = set()
        self._finished: list[Request] = []
        self._next: tuple[int, float, list[Request], int] | None = None
        """The next stretch as long as nothing changes: replicas are asked for its end after every event of another."""

    @property
    def num_in_flight(self) -> int:
        """Requests queued and running."""
        return len(self._waiting) + len(self._running)

    @property
    def is_busy(self) -> bool:
        """Whether there is anything to do or to hand over."""
        return bool(self._waiting or self._running or self._finished)

    def next_end(self) -> float:
        """When the next stretch of steps ends, if nothing is submitted or aborted before."""
        if self._finished:
            return self.now
        return self.now + self._next_stretch()[1]

    def run(self) -> list[Request]:
        """Do the next stretch of steps and return what finished."""
        if not self._finished:
            self._do(*self._next_stretch())
        finished, self._finished = self._finished, []
        return finished

    def submit(self, request: Request, at_s: float) -> None:
        """Queue a request; a step under way at that time is finished first."""
        self.catch_up(at_s)
        self._waiting.append(request)
        self._next = None

    def abort(self, request_id: str, at_s: float) -> int:
        """Drop a request. Return how many tokens it had, those of a step under way included."""
        self.catch_up(at_s)
        self._next = None
        if request_id in self._running:
            request, start = self._running.pop(request_id)
            num_tokens = self._num_steps - start
            self._context -= len(request.prompt_ids) + num_tokens
            return num_tokens
        finished = [request for request in self._finished if request.request_id == request_id]
        self._finished = [request for request in self._finished if request.request_id != request_id]
        self._waiting = deque(request for request in self._waiting if request.request_id != request_id)
        return sum(request.fate.num_tokens for request in finished)

    def catch_up(self, at_s: float) -> None:
        """Finish the steps that began before ``at_s``."""
        while self.now < at_s:
            if not self._running and not self._waiting:
                self.now = at_s
                return
            self._do(*self._stretch(until_s=at_s))

    def forget_prefixes(self) -> None:
        """Empty the prefix cache, as a weight sync does."""
        self._cached.clear()
        self._next = None

    def _next_stretch(self) -> tuple[int, float, list[Request], int]:
        if self._next is None:
            self._next = self._stretch()
        return self._next

    def _stretch(self, until_s: float | None = None) -> tuple[int, float, list[Request], int]:
        """Steps until something changes or ``until_s`` is reached, their seconds, admissions and computed tokens."""
        admitted, num_prompt_tokens = self._admissions()
        num_running = len(self._running) + len(admitted)
        context = self._context + sum(len(request.prompt_ids) for request in admitted)
        if admitted or not self._jump:
            extra = self._step_time.admission(len(admitted), num_prompt_tokens)
            return 1, self._step_time.steps(1, num_running, context) + extra, admitted, num_prompt_tokens
        while not self._runs(self._finishing[0][2]):  # aborted
            heapq.heappop(self._finishing)
        num_steps = self._finishing[0][0] - self._num_steps
        if until_s is not None:
            low = 1  # the least number of steps that ends at until_s or later
            while low < num_steps:
                middle = (low + num_steps) // 2
                if self.now + self._step_time.steps(middle, num_running, context) >= until_s:
                    num_steps = middle
                else:
                    low = middle + 1
        return num_steps, self._step_time.steps(num_steps, num_running, context), [], 0

    def _admissions(self) -> tuple[list[Request], int]:
        """Requests that the next step admits, and their prompt tokens that are not cached."""
        if not self._waiting or len(self._running) >= self._max_num_seqs:
            return [], 0
        admitted: list[Request] = []
        new: set[tuple[int, ...]] = set()
        num_running, num_prompt_tokens = len(self._running), 0
        for request in self._waiting:
            needed = self._uncached(request.prompt_ids, new)
            full = num_running + num_prompt_tokens + needed > self._max_batched_tokens
            if num_running >= self._max_num_seqs or (full and num_running):
                break
            admitted.append(request)
            new.add(request.prompt_ids)
            num_running += 1
            num_prompt_tokens += needed
        return admitted, num_prompt_tokens

    def _runs(self, request: Request) -> bool:
        """Whether this very request runs: an aborted one may have come again under its name."""
        return self._running.get(request.request_id, (None, 0))[0] is request

    def _uncached(self, prompt_ids: Sequence[int], new: set[tuple[int, ...]]) -> int:
        """Prompt tokens to compute. A cached prompt computes its last, unfilled block, at least one token."""
        if prompt_ids in self._cached or prompt_ids in new:
            return len(prompt_ids) - (len(prompt_ids) - 1) // self._block_size * self._block_size
        return len(prompt_ids)

    def _do(self, num_steps: int, seconds: float, admitted: list[Request], _num_prompt_tokens: int) -> None:
        self._next = None
        for request in admitted:
            self._waiting.popleft()
            self._cached.add(request.prompt_ids)
            self._running[request.request_id] = request, self._num_steps
            self._context += len(request.prompt_ids)
            self._num_admitted += 1
            heapq.heappush(self._finishing, (self._num_steps + request.fate.num_tokens, self._num_admitted, request))
        self.spans.append(Span(self.now, self.now + seconds, len(self._running)))
        self.now += seconds
        self._num_steps += num_steps
        self._context += num_steps * len(self._running)
        while self._finishing and self._finishing[0][0] <= self._num_steps:
            request = heapq.heappop(self._finishing)[2]
            if self._runs(request):
                del self._running[request.request_id]
                self._context -= len(request.prompt_ids) + request.fate.num_tokens
                self._finished.append(request)
