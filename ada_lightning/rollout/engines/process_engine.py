"""An engine in a process of its own, for more than one training process and for engines that may hang."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Generation, SamplingSettings
from ada_lightning.rollout.engines.engine_environment import engine_environment
from ada_lightning.rollout.engines.engine_messages import (
    Abort,
    Aborted,
    Asleep,
    Event,
    Failed,
    Finished,
    Loaded,
    Ready,
    Sleep,
    Stop,
    Submit,
    Update,
    Updated,
)
from ada_lightning.rollout.engines.engine_process import BeginLoad, EndLoad, TensorTaken, TensorThere
from ada_lightning.rollout.engines.errors import EngineError, check_fits
from ada_lightning.rollout.engines.patience import Patience
from ada_lightning.rollout.engines.weight_digest import WeightDigest, digest_error
from ada_lightning.rollout.engines.weight_transfer import WeightSender, WeightTransfer

if TYPE_CHECKING:
    from torch import Tensor

    from ada_lightning.rollout.engines.shared_weights import SharedTensor

_POLL_WAIT_S = 0.02
"""Longest wait of one poll: how long a verdict of the graders may lie before the collector looks at it."""
_LISTEN_WAIT_S = 1.0
_CLOSE_WAIT_S = 5.0
E = TypeVar("E")


class ProcessEngine(RolloutEngine):
    """A :class:`~ada_lightning.core.protocols.RolloutEngine` whose real engine runs in a child process.

    The child decodes token after token without being asked and sends what finished, so a poll is a look into a socket.
    It inherits nothing of ``torchrun``, ignores Ctrl-C, and ends with this process whatever it is doing. If it ends by
    itself, says that the engine broke, or makes no progress for ``call_timeout_s``, every call raises
    :class:`~ada_lightning.rollout.engines.errors.EngineError`; nothing of it is left then.

    Weights go tensor by tensor through memory that both processes see, in the engine's own type where it tells one
    (``weight_dtype``). The child answers with the policy version and a checksum of what the engine was given.

    Args:
        engine: makes the real engine in the child; picklable, such as a ``functools.partial`` of a class.
        log_file: where the child's output goes, appended.
        start_timeout_s: seconds until the engine must be open.
        call_timeout_s: seconds without any progress after which it counts as hanging: more than the longest engine
            step, and than loading the weights takes the engine after the last tensor. Only time spent listening counts.
        num_threads: CPU threads of the child; 0: all cores.
        environment: further variables of the child, such as ``CUDA_VISIBLE_DEVICES``.

    Raises:
        EngineError: the engine did not start.
    """

    def __init__(
        self,
        engine: Callable[[], RolloutEngine],
        *,
        log_file: Path,
        start_timeout_s: float = 600.0,
        call_timeout_s: float = 300.0,
        num_threads: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        from ada_lightning.rollout.engines.shared_weights import SharedTensor, shared_memory

        self._log_file = log_file
        self._patience = Patience(start_timeout_s)
        self._in_flight: set[str] = set()
        self._finished: list[Generation] = []
        self._answers: list[Event | TensorTaken] = []
        self._num_aborts = 0
        self._arriving_version = 0
        self._policy_version = -1
        self._sender: WeightSender | None = None
        log_file.parent.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        memory_fd = shared_memory()
        self._memory: SharedTensor | None = SharedTensor(memory_fd)
        self._memory_fd = memory_fd
        arguments = map(str, (os.getpid(), theirs.fileno(), memory_fd, log_file.absolute()))
        with theirs, log_file.open("a") as log:
            self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                [sys.executable, "-m", "ada_lightning.rollout.engines.engine_process", *arguments],
                pass_fds=(theirs.fileno(), memory_fd),
                env=engine_environment(num_threads, environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._connection = Connection(ours.detach())
        try:
            self._send(engine)
            ready = self._wait_for(Ready)
        except BaseException:
            self._kill()
            raise
        self._patience = Patience(call_timeout_s)
        self.max_model_tokens = ready.max_model_tokens
        self.max_num_seqs = ready.max_num_seqs
        self.sleep_level = int(ready.can_sleep)
        self._weight_dtype = ready.weight_dtype
        self._transfer = ready.weight_transfer
        self._num_workers = ready.num_workers

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Queue one response; returns at once.

        Raises:
            ValueError: no room for the prompt and its longest response.
            EngineError: the engine is gone.
        """
        check_fits(len(prompt_ids), settings.max_new_tokens, self.max_model_tokens)
        self._send(Submit(request_id, tuple(prompt_ids), settings, seed))
        self._in_flight.add(request_id)

    def poll(self) -> list[Generation]:
        """Return what finished, after at most 20 ms; empty when nothing did.

        Raises:
            EngineError: the engine broke, hangs or is gone.
        """
        if not self._in_flight:
            return []
        self._listen(0.0 if self._finished else _POLL_WAIT_S)
        finished, self._finished = self._finished, []
        self._in_flight.difference_update(generation.request_id for generation in finished)
        return finished

    def abort(self, request_ids: Sequence[str]) -> int:
        """Drop requests, which takes until the engine's next step begins.

        Returns:
            Tokens generated for them, those of finished responses that were not polled included.

        Raises:
            EngineError: the engine broke, hangs or is gone.
        """
        unwanted = self._in_flight.intersection(request_ids)
        if not unwanted:
            return 0
        self._num_aborts += 1
        self._send(Abort(self._num_aborts, tuple(unwanted)))
        num_tokens = self._wait_for(Aborted).num_tokens
        late = [generation for generation in self._finished if generation.request_id in unwanted]
        self._finished = [generation for generation in self._finished if generation.request_id not in unwanted]
        self._in_flight -= unwanted
        return num_tokens + sum(len(generation.response_ids) for generation in late)

    def num_in_flight(self) -> int:
        """Requests submitted and neither returned nor aborted."""
        return len(self._in_flight)

    def load_weights(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Replace the weights.

        If the engine fails, the tensors are read to their end all the same: where they are gathered from several
        training processes, the others take part in every gathering and would wait for ever.

        Raises:
            RuntimeError: requests are in flight.
            EngineError: the engine broke, hangs or is gone, or got other weights than were sent.
        """
        if self._in_flight:
            raise RuntimeError(f"load_weights with {len(self._in_flight)} requests in flight")
        remaining = self._cast(named_tensors)
        try:
            if self._transfer is None:
                self._load(remaining, policy_version)
            else:
                self._send_by(self._transfer, remaining, policy_version)
        except EngineError:
            for _ in remaining:
                continue
            raise
        except BaseException:  # the child waits for a tensor that will not come
            self._kill()
            raise

    def sleep(self) -> bool:
        """Have the engine give memory back; whether its weights will still be there.

        Raises:
            RuntimeError: requests are in flight.
            EngineError: the engine broke, hangs or is gone.
        """
        if self._in_flight:
            raise RuntimeError(f"sleep with {len(self._in_flight)} requests in flight")
        if not self.sleep_level:
            return True
        self._send(Sleep())
        return self._wait_for(Asleep).keeps_weights

    def close(self) -> None:
        """End the child, by force where it does not end by itself. Safe to call twice."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._connection.send(Stop())
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_WAIT_S)
        self._kill()

    def _load(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        digest = WeightDigest()
        self._send(BeginLoad(policy_version))
        for name, tensor in named_tensors:
            assert self._memory is not None
            shared = self._memory.write(tensor)
            digest.add(name, shared)
            self._send(TensorThere(name, tuple(shared.shape), str(shared.dtype).removeprefix("torch.")))
            self._wait_for(TensorTaken)
        self._send(EndLoad())
        loaded = self._wait_for(Loaded)
        assert self._memory is not None
        self._memory.release()
        if loaded.policy_version != policy_version:
            raise self._broken(f"it answers with policy version {loaded.policy_version} instead of {policy_version}")
        if error := digest_error(digest.value(), loaded.digest):
            raise self._broken(error)
        self._policy_version = policy_version

    def _send_by(
        self, transfer: WeightTransfer, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int
    ) -> None:
        """Send weights from GPU to GPU, connecting first where that was not done."""

        # A connection outlives the version it began with, so that the version must not be bound here.
        def call(method: str, argument: dict[str, Any]) -> None:
            self._send(Update(method, argument, self._arriving_version))
            self._wait_for(Updated)

        self._arriving_version = policy_version
        try:
            self._sender = self._sender or transfer.connect(call, self._num_workers)
            self._sender.send(named_tensors)
        except EngineError:
            raise
        except Exception as error:
            raise self._broken(f"weight transfer failed: {type(error).__name__}: {error}") from error
        self._policy_version = policy_version

    def _cast(self, named_tensors: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """In the engine's own type, where it tells one: in bfloat16 half of the bytes travel."""
        import torch

        dtype = getattr(torch, self._weight_dtype.removeprefix("torch.")) if self._weight_dtype else None
        for name, tensor in named_tensors:
            is_cast = dtype is not None and tensor.is_floating_point()
            yield name, tensor.detach().to(dtype) if is_cast else tensor.detach()

    def _send(self, message: Any) -> None:
        if self._process is None:
            raise EngineError("the engine's process was closed")
        try:
            self._connection.send(message)
        except OSError:
            raise self._broken(self._how_it_ended()) from None

    def _wait_for(self, kind: type[E]) -> E:
        """Return the next answer of a kind; what finishes meanwhile is kept."""
        while True:
            for index, answer in enumerate(self._answers):
                if isinstance(answer, kind):
                    del self._answers[index]
                    return answer
            self._listen(_LISTEN_WAIT_S)

    def _listen(self, wait_s: float) -> None:
        """Take every message that is there, waiting for a first one."""
        if self._process is None:
            raise EngineError("the engine's process was closed")
        started = time.monotonic()
        try:
            if not self._connection.poll(wait_s):
                if self._patience.waited(time.monotonic() - started, wait_s):
                    raise self._broken(f"it made no progress for {self._patience.silent_s:.0f} s and was killed")
                return
            self._patience.heard()
            while self._connection.poll():
                self._receive(self._connection.recv())
        except (EOFError, OSError):
            raise self._broken(self._how_it_ended()) from None

    def _receive(self, message: Event | TensorTaken) -> None:
        if isinstance(message, Failed):
            raise self._broken(message.reason)
        if isinstance(message, Finished):
            if message.policy_version != self._policy_version:
                raise self._broken(
                    f"it sampled from policy version {message.policy_version} instead of {self._policy_version}"
                )
            self._finished += [g for g in message.generations if g.request_id in self._in_flight]
        elif isinstance(message, Ready | Aborted | Loaded | Updated | Asleep | TensorTaken):
            self._answers.append(message)

    def _broken(self, reason: str) -> EngineError:
        self._kill()
        return EngineError(f"the engine's process broke: {reason}; {self._log_file} may tell more")

    def _how_it_ended(self) -> str:
        """Say how the child ended, whose end of the socket is closed."""
        assert self._process is not None
        try:
            code = self._process.wait(_CLOSE_WAIT_S)
        except subprocess.TimeoutExpired:
            return "it closed its end and does not end"
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"it left with code {code}"

    def _kill(self) -> None:
        """End the child and whatever it started, and give everything back."""
        process, self._process = self._process, None
        self._in_flight.clear()
        self._finished.clear()
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._disconnect()
        self._connection.close()
        self._memory = None
        os.close(self._memory_fd)

    def _disconnect(self) -> None:
        """Close the transfer, whose port and GPU memory the next engine needs."""
        sender, self._sender = self._sender, None
        if sender is None:
            return
        try:
            sender.close()
        except Exception as error:
            warnings.warn(f"the weight transfer did not close cleanly: {error}", RuntimeWarning, stacklevel=2)
