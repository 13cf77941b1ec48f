"""Engines for child processes: importable, without a model, each with one fault or one thing to tell.

Also importable fast: a child imports this file, and torch only for weights, where a test's own file takes it seconds.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from dataclasses import dataclass, replace
from functools import partial

from ada_lightning.core.protocols import VersionedEngine
from ada_lightning.core.records import Outcome
from research.scripted import ScriptedEngine

POLLS_OF_A_RESPONSE = 3


class CoinEngine(ScriptedEngine):
    """Coin flips that take some polls each; slow enough for a test to act in between."""

    def __init__(self, *, poll_s: float = 0.0, weight_dtype: str = "", max_num_seqs: int = 8) -> None:
        super().__init__(
            pass_rates=dict.fromkeys(range(1, 50), 0.5),
            num_polls=lambda generator, is_positive: POLLS_OF_A_RESPONSE,
            max_model_tokens=32,
            max_num_seqs=max_num_seqs,
        )
        self.weight_dtype = weight_dtype
        self.weights = {}
        self._poll_s = poll_s

    def poll(self):
        time.sleep(self._poll_s)
        return super().poll()

    def abort(self, request_ids):
        """Ten tokens had been generated for each."""
        return 10 * sum(request_id in self._running for request_id in request_ids) + super().abort(request_ids)

    def load_weights(self, named_tensors, policy_version):
        self.weights = dict(named_tensors)
        self.policy_version = policy_version


def completed(engine_class, **options):
    """Makes an engine as a host makes one, which completes the log file."""
    return partial(_open, engine_class, options)


def as_a_host_opens(engine):
    """The same for an engine that is made without arguments."""
    return partial(_open, engine, {})


def _open(engine_class, options, *, log_file):
    return engine_class(**options)


class TellingEngine(CoinEngine):
    """Answers each request with facts about its process as tokens, and with the sum of its weights as logprob."""

    def submit(self, request_id, prompt_ids, settings, seed):
        facts = (
            os.getpid(),
            int(signal.getsignal(signal.SIGINT) is signal.SIG_IGN),
            int("LOCAL_WORLD_SIZE" in os.environ or "TORCHELASTIC_RUN_ID" in os.environ or "LD_PRELOAD" in os.environ),
            int(os.environ.get("OMP_NUM_THREADS", 0)),
            int(os.environ.get("GIVEN", "0")),
            sum(tensor.element_size() for tensor in self.weights.values()),
        )
        total = float(sum(tensor.double().sum() for tensor in self.weights.values()))
        self._running[request_id] = (0, Outcome("", facts, (total,) * len(facts), False, request_id=request_id))


class ForgettingEngine(CoinEngine):
    """Reads weights and holds none; answers each request with the pages that its process took for the last ones."""

    def load_weights(self, named_tensors, policy_version):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in named_tensors:
            continue
        self.num_pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    def submit(self, request_id, prompt_ids, settings, seed):
        self._running[request_id] = (0, Outcome("", (self.num_pages,), (0.0,), False, request_id=request_id))


class SideBySideEngine(CoinEngine, VersionedEngine):
    """Holds several versions, at most as many as given, and answers by the sum of the weights of each one's own."""

    serves_versions = True

    def __init__(self, *, num_versions=2, **options):
        super().__init__(**options)
        self.held, self.most_at_once, self._num_versions, self._asked = {}, 0, num_versions, {}

    @property
    def versions(self):
        return self.held.keys()

    def submit(self, request_id, prompt_ids, settings, seed, policy_version=None):
        version = max(self.held) if policy_version is None else policy_version
        total = float(sum(tensor.double().sum() for tensor in self.held[version].values()))
        super().submit(request_id, prompt_ids, settings, seed)
        at, generation = self._running[request_id]
        self._running[request_id] = (at, replace(generation, sampling_logprobs=(total,)))
        self._asked[request_id] = version
        self.most_at_once = max(self.most_at_once, len(self._in_use()))

    def load_weights(self, named_tensors, policy_version):
        assert not self._running
        self.held = {policy_version: dict(named_tensors)}

    def publish(self, named_tensors, policy_version):
        self.held[policy_version] = dict(named_tensors)
        if len(self.held) > self._num_versions:
            raise RuntimeError(f"{len(self.held)} versions, and room for {self._num_versions}")

    def keep(self, policy_versions):
        gone = self.held.keys() - policy_versions
        assert not gone & self._in_use()
        self.held = {version: self.held[version] for version in self.held.keys() - gone}

    def _in_use(self):
        return {self._asked[request_id] for request_id in self._running}


def die():
    """Be killed in mid-step."""
    os.kill(os.getpid(), signal.SIGKILL)


def hang():
    """Never come back."""
    time.sleep(1000)


def run_out_of_memory():
    raise MemoryError("no block left")


class FaultyEngine(CoinEngine):
    """Has a fault in its steps, or where it starts."""

    def __init__(self, fault, *, at_start=False, **options):
        if at_start:
            fault()
        super().__init__(**options)
        self.fault = fault

    def poll(self):
        return self.fault()


class UnloadableEngine(CoinEngine):
    """Breaks after the first tensor."""

    def load_weights(self, named_tensors, policy_version):
        next(iter(named_tensors))
        raise RuntimeError("shape of lm_head does not fit")


class SleepyEngine(CoinEngine):
    """Sleeps, and counts how often."""

    num_sleeps = 0

    def __init__(self, *, sleep_level: int = 1, **options) -> None:
        super().__init__(**options)
        self.sleep_level = sleep_level

    def sleep(self):
        self.num_sleeps += 1
        return self.sleep_level < 2


@dataclass(frozen=True)
class PostTransfer:
    """A weight transfer that posts one message per tensor; remembers nothing, as it travels."""

    backend: str = "post"

    def connect(self, call, num_workers):
        call("init_weight_transfer_engine", {"num_workers": num_workers})
        return PostSender(call)


class PostSender:
    def __init__(self, call):
        self.call = call

    def send(self, named_tensors):
        self.call("start_weight_update", {})
        for name, tensor in named_tensors:
            self.call("update_weights", {"name": name, "sum": float(tensor.double().sum()), "dtype": str(tensor.dtype)})
        self.call("finish_weight_update", {})

    def close(self):
        self.call = None


class TransferEngine(CoinEngine):
    """Takes part in a transfer, and answers requests with the calls it got."""

    weight_transfer = PostTransfer()
    num_workers = 3

    def __init__(self, *, fails_at: str = "", **options) -> None:
        super().__init__(**options)
        self.calls = []
        self.fails_at = fails_at

    def update_weights(self, method, argument):
        if method == self.fails_at:
            raise RuntimeError("no peer")
        self.calls.append((method, argument))

    def submit(self, request_id, prompt_ids, settings, seed):
        self._running[request_id] = (
            0,
            Outcome("", tuple(self.calls), (0.0,) * len(self.calls), False, request_id=request_id),
        )


@dataclass(frozen=True)
class StoreTransfer:
    """A weight transfer that meets the workers at a port of its own, as vLLM's by NCCL does; nobody else comes."""

    port: int
    backend: str = "store"

    def connect(self, call, num_workers):
        return StoreSender(self.port)


class StoreSender:
    def __init__(self, port):
        from torch.distributed import TCPStore

        self.store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, use_libuv=False)

    def send(self, named_tensors):
        for _ in named_tensors:
            continue

    def close(self):
        self.store = None


class UnclosableSender(StoreSender):
    def close(self):
        super().close()
        raise RuntimeError("the group is gone")


@dataclass(frozen=True)
class UnclosableTransfer(StoreTransfer):
    def connect(self, call, num_workers):
        return UnclosableSender(self.port)


class StoreEngine(CoinEngine):
    """Weights come by a transfer with a port of its own; nothing checks which policy version they are."""

    def __init__(self, *, transfer, num_polls_to_live: float = float("inf"), **options) -> None:
        super().__init__(**options)
        self.weight_transfer = transfer
        self._num_polls_to_live = num_polls_to_live

    def update_weights(self, method, argument):
        """Only tells the policy version."""

    def poll(self):
        self._num_polls_to_live -= 1
        if self._num_polls_to_live < 0:
            raise MemoryError("no block left")
        return super().poll()


class FirstDies:
    """A factory of the service that goes to the child: the first engine that it makes dies.

    Args:
        marker: file that says that one was made.
    """

    def __init__(self, marker):
        self.marker = marker

    def __call__(self, **completed):
        if self.marker.exists():
            return CoinEngine()
        self.marker.touch()
        return FaultyEngine(die)
