"""Environments of tests, good and bad. Imported by workers, so without pytest."""

from __future__ import annotations

import os
import random
import signal
import time

from ada_lightning.core.protocols.environment import End, Environment, Say


class OneTurn(Environment):
    """Ends after the first turn, for the reward to grade."""

    def turn(self, said):
        return End()


class Echo(Environment):
    """Says back what it heard, for so many turns."""

    def __init__(self, turns):
        self.turns = turns
        self.heard = []

    def turn(self, said):
        self.heard.append(said.text)
        return End() if len(self.heard) == self.turns else f"{len(self.heard)}: {said.text}"


class Noisy(Environment):
    """Asynchronous, with noise of its own and of Python's generator, and a reward that both decide."""

    async def start(self, prompt, seed):
        self.noise = random.Random(seed)
        self.drawn = []

    async def turn(self, said):
        self.drawn.append(self.noise.randrange(100) + random.randrange(100))
        if len(self.drawn) == 3:
            return End(reward=float(sum(self.drawn) % 2), components={"noise": float(sum(self.drawn))})
        return Say(str(self.drawn[-1]), num_calls=1, num_call_errors=self.drawn[-1] % 2)


class Slow(Echo):
    """As :class:`Echo`, after a while."""

    def turn(self, said):
        time.sleep(0.05)
        return super().turn(said)


class Unlimited(Environment):
    """Never ends, and has an opinion about an episode that was cut."""

    def turn(self, said):
        return "go on"

    def cut(self):
        return End(reward=0.25)


class Hostile(Environment):
    """Misbehaves as the prompt says."""

    def start(self, prompt, seed):
        self.kind = prompt.reference["kind"]
        self.bag = []
        if self.kind == "start":
            raise ZeroDivisionError("no task")

    def turn(self, said):
        return getattr(self, f"_{self.kind}")()

    def cut(self):
        return End(reward=1.0)

    def _good(self):
        return End(reward=1.0)

    def _raise(self):
        raise ZeroDivisionError("seven")

    def _leave(self):
        raise SystemExit(0)

    def _outage(self):
        raise ConnectionRefusedError("no server")

    def _hang(self):
        while True:
            time.sleep(1)

    def _exit(self):
        os._exit(3)

    def _segfault(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def _memory(self):
        return "x" * 10**13

    def _endless(self):
        return "go on"

    def _flood(self):
        return "x" * 10**7

    def _surrogates(self):
        return "\ud800\x00<|im_end|>"

    def _bytes(self):
        return b"result"

    def _nan(self):
        return End(reward=float("nan"))

    def _text_reward(self):
        return End(reward="good")

    def _lambda(self):
        self.bag = lambda: 0
        return "next"

    def _grow(self):
        self.bag.append(bytes(20_000_000))
        return "next"

    def _fork(self):
        if os.fork() == 0:
            return End(reward=0.5)
        return End(reward=1.0)

    def _noise(self):
        random.seed(1)
        signal.setitimer(signal.ITIMER_REAL, 3600)
        print("x" * 10**6)
        return End(reward=1.0)
