"""Environments without workers."""

from __future__ import annotations

import pickle

from ada_lightning.rewards import worker as reward_worker
from ada_lightning.rollout.episodes import worker

HERE = "tests.unit.rollout.episodes.environments"


class LocalEnvironments:
    """Environments of one class in this process; everything passes through pickle as on the way to a worker."""

    def __init__(self, monkeypatch, name, *, late=False, **arguments):
        made = worker.EnvironmentClass(f"{HERE}.{name}", arguments, max_reply_chars=100)
        monkeypatch.setitem(reward_worker._loaded, "reward", made)
        self.calls, self._ready, self._late = [], [], late

    def submit(self, ticket, prompt, call):
        self.calls.append(call)
        reply, _ = worker._act(pickle.dumps((prompt, call)))
        self._ready.append((ticket, pickle.loads(pickle.dumps(reply))))

    def poll(self):
        if self._late:
            return []
        ready, self._ready = self._ready, []
        return ready

    def wait(self, timeout_s):
        ready, self._ready = self._ready[::-1], []
        return ready

    def discard_pending(self):
        self._ready.clear()
