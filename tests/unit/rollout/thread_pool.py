"""A place for a pool's members in threads of this process, where a test can kill them."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue

from ada_lightning.rollout.engines.engine_loop import EngineLoop, Stop
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.published_weights import PublishedWeights, WeightDigest


class ThreadMember:
    log_file = Path("engine.log")

    def __init__(self, open_engine, host=""):
        self.engine, self.death, self.is_closed = None, "", False
        self._commands, self._events = SimpleQueue(), SimpleQueue()

        def opened():
            self.engine = open_engine()
            return self.engine

        self._loop = EngineLoop(opened, self._commands, self._events.put, host=host)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(Exception):
            self._loop.run()

    def die(self):
        self.death = "killed"

    def send(self, command):
        if self.death:
            raise EngineError(self.death)
        self._commands.put(command)

    def events(self):
        if self.death:
            raise EngineError(self.death)
        found = []
        with contextlib.suppress(Empty):
            while True:
                found.append(self._events.get_nowait())
        return found

    def has_events(self):
        return bool(self.death) or not self._events.empty()

    def close(self, wait_s=0.0):
        self.is_closed = True
        self._commands.put(Stop())


class ThreadPlace:
    """Opens ``engines[index]()``, or what ``replacements`` holds for a second and later member of an index."""

    def __init__(self, *engines, replacements=(), hosts=()):
        self.hosts = dict(enumerate(hosts))
        self.engines, self.replacements = engines, list(replacements)
        self.opened, self.is_closed, self.publish_error = [], False, None

    def open(self, index):
        is_first = len(self.opened) < len(self.engines)
        engine = self.engines[index] if is_first or not self.replacements else self.replacements.pop(0)
        if isinstance(engine, Exception):
            raise engine
        self.opened.append(ThreadMember(engine, self.hosts.get(index, "")))
        return self.opened[-1]

    def wait(self, members, timeout_s):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and not any(member.has_events() for member in members):
            time.sleep(0.001)

    def publish(self, named_tensors, policy_version, weight_dtype):
        digest, tensors = WeightDigest(), []
        for named in digest.reading(named_tensors):
            tensors.append(named)
            if self.publish_error:
                raise self.publish_error
        return PublishedWeights(policy_version, tensors, digest.value())

    def close(self):
        self.is_closed = True
