"""Several engines in other processes as one: more slots, and a step goes on when one of them dies."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from ada_lightning.core.protocols import VersionedEngine
from ada_lightning.core.records import Outcome, SamplingSettings
from ada_lightning.rollout.engines.engine_loop import (
    Answer,
    Call,
    Event,
    Failed,
    Finished,
    Opening,
    Ready,
    Stop,
)
from ada_lightning.rollout.engines.errors import EngineError, check_fits
from ada_lightning.rollout.engines.pool_place import PoolHost, PoolPlace
from ada_lightning.rollout.engines.published_weights import PublishedWeights, in_engine_type
from ada_lightning.rollout.engines.request_queue import RequestQueue, Seat
from ada_lightning.rollout.engines.weight_transfer import WeightSender, WeightTransfer

if TYPE_CHECKING:
    from torch import Tensor

_POLL_WAIT_S = 0.02
"""Longest wait of one poll: how long a verdict of the graders may lie before the collector looks at it."""
_LISTEN_WAIT_S = 1.0
_CLOSE_WAIT_S = 5.0


class EnginePool(VersionedEngine):
    """A :class:`~ada_lightning.core.protocols.RolloutEngine` made of one or several that run elsewhere.

    Which engine gets a request says :class:`~ada_lightning.rollout.engines.request_queue.RequestQueue`. Several engines
    can serve several policy versions at once: each goes over to a new one when it has run empty and its turn has come
    (:mod:`~ada_lightning.rollout.engines.request_queue`). Engines that serve several by themselves, as adapters, are
    handed each version when it comes.

    An engine that dies, breaks or hangs is replaced: its unfinished requests go to the others at once, with their own
    seeds, and the new one gets weights before it gets requests. Seeded requests therefore give the same responses, each
    once. An engine that was lost more than ``max_restarts`` times since the last sync is left out until the next one,
    which tries it once more. Where none is left, every call raises
    :class:`~ada_lightning.rollout.engines.errors.EngineError`.

    Args:
        place: where the engines live.
        limits: how many, and how patient the pool is.

    Raises:
        EngineError: an engine did not start.
    """

    def __init__(self, place: PoolPlace, limits: PoolHost) -> None:
        self.num_restarts = 0
        """Engines replaced since the pool was opened."""
        self._place, self._limits = place, limits
        self._queue = RequestQueue(limits.affinity)
        self._finished: list[Outcome] = []
        self._late_tokens = 0
        self._tickets = count(1)
        self._answers: dict[int, Any] = {}
        self._published: dict[int, PublishedWeights] = {}
        """By policy version, for as long as engines may need them."""
        self._policy_version = -1
        """The last one that came."""
        self._sender: WeightSender | None = None
        self._holds_versions = False
        """Whether each engine serves several versions by itself."""
        self._seats: list[Seat] = []
        self._left_out: list[Seat] = []
        """Until the next sync: a host that was away may be there again."""
        self._end = "it was closed"
        """Why none is left, once none is."""
        try:
            for index in range(limits.num_engines):
                self._seats.append(Seat(index, place.open(index), limits.start_timeout_s))
            while not all(seat.is_ready for seat in self._seats):
                self._listen(_LISTEN_WAIT_S, is_starting=True)
        except BaseException:
            self.close()
            raise
        self.max_model_tokens = min(seat.told.max_model_tokens for seat in self._seats)
        self.weight_dtype = self._seats[0].told.weight_dtype
        self.takes_adapters = self._seats[0].told.takes_adapters
        self.takes_drafts = all(seat.told.takes_drafts for seat in self._seats)
        self._holds_versions = self._seats[0].told.serves_versions
        self._note_size()

    def loads(self) -> list[int]:
        """Return the requests in flight of each engine."""
        return [len(seat.in_flight) for seat in self._seats]

    def pids(self) -> list[int]:
        """Return the process of each engine, on its machine."""
        return [seat.told.pid for seat in self._seats]

    @property
    def serves_versions(self) -> bool:
        """Whether each engine does, or there are several, with weights that wait for them."""
        is_several = self._limits.num_engines > 1 and all(seat.told.weight_transfer is None for seat in self._seats)
        return self._holds_versions or is_several

    @property
    def versions(self) -> Collection[int]:
        """Of which weights are published; else the one that all engines have."""
        return self._published.keys() or (self._policy_version,)

    def submit(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        settings: SamplingSettings,
        seed: int | None,
        policy_version: int | None = None,
        draft: Sequence[int] = (),
    ) -> None:
        """Queue one response; returns at once. A ``draft`` is for engines that take one (``takes_drafts``).

        Raises:
            ValueError: no room for the prompt and its longest response, or no weights of the version.
            EngineError: no engine is left.
        """
        check_fits(len(prompt_ids), settings.max_new_tokens, self.max_model_tokens)
        self._require_seats()
        version = self._policy_version if policy_version is None else policy_version
        if version not in self.versions:
            raise ValueError(f"the pool has policy versions {sorted(self.versions)}, not {version}; publish it first")
        options: dict[str, Any] = {"policy_version": version} if self._holds_versions and version >= 0 else {}
        if draft:
            options["draft"] = tuple(draft)
        request = (request_id, tuple(prompt_ids), settings, seed)
        self._queue.add(Call(0, "submit", request, options=options), version)
        self._dispatch()

    def poll(self) -> list[Outcome]:
        """Return what finished, after at most 20 ms; empty when nothing did.

        Raises:
            EngineError: no engine is left.
        """
        if not self._queue:
            return []
        self._listen(0.0 if self._finished else _POLL_WAIT_S)
        finished, self._finished = self._finished, []
        self._queue.remove([generation.request_id for generation in finished])
        return finished

    def abort(self, request_ids: Sequence[str]) -> int:
        """Drop requests, which takes until the next step of the engines that have them.

        Returns:
            Tokens generated for them, those of finished responses that were not polled included; those that were lost
            with an engine are not.

        Raises:
            EngineError: no engine is left.
        """
        unwanted = self._queue.remove(request_ids)
        if not unwanted:
            return 0
        polled_late = [generation for generation in self._finished if generation.request_id in unwanted]
        self._finished = [generation for generation in self._finished if generation.request_id not in unwanted]
        self._late_tokens = sum(len(generation.response_ids) for generation in polled_late)
        found = [(seat, tuple(unwanted & seat.in_flight)) for seat in self._seats]
        num_tokens = sum(self._ask([(seat, Call(next(self._tickets), "abort", (ids,))) for seat, ids in found if ids]))
        return num_tokens + self._late_tokens

    def num_in_flight(self) -> int:
        """Requests submitted and neither returned nor aborted."""
        return len(self._queue)

    def load_weights(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Replace the weights of every engine.

        If it fails, the tensors are read to their end all the same: where they are gathered from several training
        processes, the others take part in every gathering and would wait for ever.

        Raises:
            RuntimeError: requests are in flight.
            EngineError: no engine is left, or the weights could not be put where the engines read them.
        """
        if self._queue:
            raise RuntimeError(f"load_weights with {len(self._queue)} requests in flight")
        with _read_to_the_end(named_tensors) as remaining:
            self._require_seats()
            self._wait_for_loads()  # of those before
            self._queue.forget_prefixes()
            self._published, self._policy_version = {}, -1  # their memory is free for the new ones
            self._call_back()
            if transfer := self._seats[0].told.weight_transfer:
                self._send_by(transfer, remaining, policy_version)
                return
            self._publish(remaining, policy_version)
        for seat in list(self._seats):
            if seat.is_open:
                self._hand(seat, "load_weights", policy_version)
        self._wait_for_loads()

    def publish(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Have weights ready for the engines that will need them, one after another.

        Raises:
            EngineError: no engine is left, or the weights could not be put where the engines read them.
        """
        with _read_to_the_end(named_tensors) as remaining:
            self._require_seats()
            self._call_back()
            self._publish(remaining, policy_version)
        if self._holds_versions:
            for seat in list(self._seats):
                if seat.is_open:
                    self._hand(seat, "publish", policy_version)

    def keep(self, policy_versions: Collection[int]) -> None:
        """Forget all other versions: engines that have one are free for those that stay.

        Raises:
            RuntimeError: requests of such a version are in flight.
            EngineError: no engine is left.
        """
        gone = sorted(self._published.keys() - policy_versions)
        for version in gone:
            if number := self._queue.num_open(version):
                raise RuntimeError(f"policy version {version} is dropped while {number} of its requests are unfinished")
        for version in gone:
            del self._published[version]  # one that an engine is just reading stays until it has done so
        if gone and self._holds_versions:
            for seat in list(self._seats):
                if seat.is_open:
                    self._send(seat, Call(next(self._tickets), "keep", (set(self._published),)))
        self._dispatch()

    def sleep(self) -> bool:
        """Have every engine give memory back; whether all weights will still be there.

        Raises:
            RuntimeError: requests are in flight.
            EngineError: no engine is left.
        """
        if self._queue:
            raise RuntimeError(f"sleep with {len(self._queue)} requests in flight")
        if not self.sleep_level:
            return True
        return all(self._ask([(seat, Call(next(self._tickets), "sleep")) for seat in self._seats if seat.is_ready]))

    def close(self) -> None:
        """End every engine. Safe to call twice."""
        seats, self._seats, self._left_out = self._seats, [], []
        for seat in seats:
            with contextlib.suppress(EngineError):
                seat.member.send(Stop())
        for seat in seats:
            seat.member.close(_CLOSE_WAIT_S)
        self._disconnect()
        self._queue.clear()
        self._finished.clear()
        self._published.clear()
        self._place.close()

    def _publish(self, named_tensors: Iterator[tuple[str, Tensor]], policy_version: int) -> None:
        self._published[policy_version] = self._place.publish(named_tensors, policy_version, self.weight_dtype)
        self._policy_version = policy_version
        for seat in self._seats:
            if seat.is_open:  # one that was called back has a single attempt
                seat.num_losses = 0

    def _send_by(
        self, transfer: WeightTransfer, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int
    ) -> None:
        """Send weights from GPU to GPU, connecting first where that was not done."""
        (seat,) = self._seats

        # A connection outlives the version it began with, so that the version must not be bound here.
        def call(method: str, argument: dict[str, Any]) -> None:
            arguments, version = (method, argument), self._arriving_version
            self._ask([(seat, Call(next(self._tickets), "update_weights", arguments, version))])

        self._arriving_version = policy_version
        try:
            self._sender = self._sender or transfer.connect(call, seat.told.num_workers)
            self._sender.send(in_engine_type(named_tensors, seat.told.weight_dtype))
        except EngineError:
            raise
        except Exception as error:
            failure = EngineError(f"weight transfer failed: {type(error).__name__}: {error}")
            self._lose(seat, failure)
            raise failure from error
        self._policy_version = seat.version = policy_version

    def _disconnect(self) -> None:
        """Close the transfer, whose port and GPU memory the next engine needs."""
        sender, self._sender = self._sender, None
        if sender is None:
            return
        try:
            sender.close()
        except Exception as error:
            warnings.warn(f"the weight transfer did not close cleanly: {error}", RuntimeWarning, stacklevel=2)

    def _note_size(self) -> None:
        """Slots of all engines, those included that are being replaced, and whether all can sleep."""
        self.max_num_seqs = sum(seat.told.max_num_seqs for seat in self._seats)
        self.sleep_level = int(all(seat.told.can_sleep for seat in self._seats))

    def _dispatch(self) -> None:
        """Hand out what waits while engines have free slots, and let engines switch that have nothing else to do."""
        while self._queue.is_waiting:
            seats = list(self._seats)  # sending may find that one is gone
            found = self._queue.assignment(seats, self.versions)
            for index, version in found.switches:
                self._hand(seats[index], "load_weights", version)
            given = self._queue.take(seats, found.room)
            if given is not None:
                self._send(*given)
            elif not found.switches:
                return

    def _listen(self, wait_s: float, *, is_starting: bool = False) -> None:
        """Take what has come from every engine, waiting for a first event, and replace those that are gone."""
        self._require_seats()
        started = time.monotonic()
        self._place.wait([seat.member for seat in self._seats], wait_s)
        waited_s = time.monotonic() - started
        for seat in list(self._seats):
            try:
                for event in seat.events(min(waited_s, 2 * wait_s)):
                    self._receive(seat, event)
            except EngineError as error:
                if is_starting:
                    raise EngineError(
                        f"{seat.name} did not start: {error}; {seat.member.log_file} may tell more"
                    ) from error
                self._lose(seat, error)
        self._dispatch()

    def _receive(self, seat: Seat, event: Event) -> None:
        if isinstance(event, Finished):
            self._take(seat, event)
        elif isinstance(event, Opening):
            seat.host = event.host
        elif isinstance(event, Ready):
            seat.told, seat.is_open = event, True
            seat.limit_s, seat.silent_s, seat.version = self._limits.call_timeout_s, 0.0, -1
            seat.longest_s, seat.is_missed = 0.0, False
            if self._holds_versions:
                for version in sorted(self._published):
                    self._hand(seat, "publish", version)
            elif len(self._published) == 1:  # of several it gets the one that lacks an engine, once there is work
                self._hand(seat, "load_weights", *self._published)
        elif isinstance(event, Answer):
            self._take_answer(seat, seat.calls.pop(event.ticket), event)
        elif isinstance(event, Failed):
            raise EngineError(event.reason)

    def _take(self, seat: Seat, event: Finished) -> None:
        if event.policy_version != seat.version and not self._holds_versions:
            raise EngineError(f"it sampled from policy version {event.policy_version} instead of {seat.version}")
        for generation in event.generations:
            seat.in_flight.discard(generation.request_id)
            if generation.request_id in self._queue:
                self._finished.append(generation)
            else:
                self._late_tokens += len(generation.response_ids)

    def _take_answer(self, seat: Seat, call: Call, answer: Answer) -> None:
        if call.method in ("load_weights", "publish"):
            if error := call.arguments[0].digest.error(answer.result):
                raise EngineError(error)
            return
        if call.method == "keep":
            return
        if call.method == "abort":
            seat.in_flight.difference_update(*call.arguments)
        self._answers[answer.ticket] = answer.result

    def _ask(self, calls: Sequence[tuple[Seat, Call]]) -> list[Any]:
        """Have calls made at once; what engines answered that were not lost meanwhile."""
        for seat, call in calls:
            self._send(seat, call)
        tickets = {call.ticket for _, call in calls}
        while any(tickets & seat.calls.keys() for seat in self._seats):
            self._listen(_LISTEN_WAIT_S)
        return [self._answers.pop(ticket) for ticket in tickets & self._answers.keys()]

    def _hand(self, seat: Seat, method: str, version: int) -> None:
        """Have an engine take a version, by ``load_weights`` or ``publish``."""
        seat.version = version
        self._queue.forget_prefixes(seat)
        self._send(seat, Call(next(self._tickets), method, (self._published[version],), version))

    def _wait_for_loads(self) -> None:
        while any(seat.calls for seat in self._seats):
            self._listen(_LISTEN_WAIT_S)

    def _send(self, seat: Seat, command: Call) -> None:
        if command.method != "submit":
            seat.calls[command.ticket] = command
        try:
            seat.member.send(command)
        except EngineError as error:
            self._lose(seat, error)

    def _lose(self, seat: Seat, error: EngineError) -> None:
        """Replace an engine, or leave it out for good, and let the others finish what it had begun."""
        if seat not in self._seats:
            return
        seat.member.close()
        name, seat.host = seat.name, ""
        num_unfinished = self._queue.put_back(seat.in_flight)
        self._queue.forget_prefixes(seat)
        seat.is_open = False
        seat.in_flight.clear()
        seat.calls.clear()
        seat.is_missed = False
        seat.num_losses += 1
        why_over = ""
        if seat.told.weight_transfer is not None:
            why_over = "a new engine cannot join the weight transfer of the one that broke"
        elif seat.num_losses > self._limits.max_restarts:
            why_over = f"each broke more often than rollout.host.max_restarts = {self._limits.max_restarts}"
        else:
            try:
                seat.member = self._place.open(seat.index)
                seat.limit_s, seat.silent_s = self._limits.start_timeout_s, 0.0
                self.num_restarts += 1
            except EngineError as start_error:
                error, why_over = start_error, "a new one did not start"
        if why_over:
            self._seats.remove(seat)
            if seat.told.weight_transfer is None:
                self._left_out.append(seat)
            self._note_size()
            self._end = f"{why_over}; the last one: {error}"
        warnings.warn(
            f"{name} broke ({error}; process {seat.told.pid}) with {num_unfinished} unfinished requests, "
            "which others finish; "
            + (f"it is left out, {len(self._seats)} are left" if why_over else "it is being replaced")
            + f"; {seat.member.log_file} may tell more",
            RuntimeWarning,
            stacklevel=2,
        )
        self._require_seats()

    def _call_back(self) -> None:
        """Try engines that were left out once more. Nobody waits for them: they get requests when they are open."""
        seats, self._left_out = self._left_out, []
        for seat in seats:
            try:
                seat.member = self._place.open(seat.index)
            except EngineError:
                self._left_out.append(seat)
                continue
            seat.limit_s, seat.silent_s, seat.num_losses = self._limits.start_timeout_s, 0.0, self._limits.max_restarts
            self.num_restarts += 1
            self._seats.append(seat)
        self._note_size()

    def _require_seats(self) -> None:
        if not self._seats:
            self.close()
            raise EngineError(f"no engine of the pool is left: {self._end}")


@contextlib.contextmanager
def _read_to_the_end(named_tensors: Iterable[tuple[str, Tensor]]) -> Iterator[Iterator[tuple[str, Tensor]]]:
    """Read tensors to their end where an engine breaks: other training processes may take part in gathering them."""
    remaining = iter(named_tensors)
    try:
        yield remaining
    except EngineError:
        for _ in remaining:
            continue
        raise
