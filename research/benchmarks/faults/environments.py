"""Environments that misbehave or are slow. Imported by workers, so without the trainer's libraries."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

from ada_lightning.core.protocols.environment import End, Environment, Say
from ada_lightning.core.records import Completion, Prompt

FAULTS: dict[str, tuple[str, float | None]] = {
    "raise": ("ZeroDivisionError", 0.0),
    "leave": ("SystemExit", 0.0),
    "hang": ("timeout", 0.0),
    "exit": ("crash", 0.0),
    "segfault": ("crash", 0.0),
    "memory": ("memory", 0.0),
    "bytes": ("invalid_reply", 0.0),
    "nan": ("invalid_reward", 0.0),
    "text_reward": ("invalid_reward", 0.0),
    "turn_reward": ("invalid_reward", 0.0),
    "lambda": ("invalid_state", 0.0),
    "grow": ("invalid_state", 0.0),
    "outage": ("ConnectionRefusedError", None),
    "start": ("ZeroDivisionError", None),
}
"""What an episode is counted as, and its reward; None: it is no evidence."""
HARMLESS = ("endless", "flood", "surrogates", "fork", "noise")
"""Misbehaviours that end in an ordinary episode, of reward 1."""


class Waiting(Environment):
    """Takes its time for an answer."""

    def __init__(self, seconds: float, num_turns: int) -> None:
        self.seconds, self.num_left = seconds, num_turns

    def turn(self, said: Completion) -> str | End:
        """Wait."""
        time.sleep(self.seconds)
        self.num_left -= 1
        return "Go on." if self.num_left else End(reward=1.0)


class Hostile(Environment):
    """Answers twice and ends, or misbehaves as the prompt says, after as many answers as it says."""

    def start(self, prompt: Prompt, seed: int) -> None:
        """Learn how to misbehave, or do it at once."""
        self.kind, self.after = prompt.reference["kind"], prompt.reference.get("after", 0)
        self.bag: Any = []
        self.num_turns = 0
        if self.kind == "start":
            raise ZeroDivisionError("no task")

    def turn(self, said: Completion) -> Any:
        """Misbehave when it is time."""
        self.num_turns += 1
        return self._good() if self.num_turns <= self.after else getattr(self, f"_{self.kind}")()

    def cut(self) -> End:
        """An episode that a limit ended is as good as any."""
        return End(reward=1.0)

    def _good(self) -> Any:
        return "go on" if self.num_turns < 3 else End(reward=1.0)

    def _raise(self) -> Any:
        raise ZeroDivisionError("seven")

    def _leave(self) -> Any:
        raise SystemExit(0)

    def _outage(self) -> Any:
        raise ConnectionRefusedError("no server")

    def _hang(self) -> Any:
        while True:
            time.sleep(1)

    def _exit(self) -> Any:
        os._exit(3)

    def _segfault(self) -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)

    def _memory(self) -> Any:
        return "x" * 10**13

    def _endless(self) -> Any:
        return "go on"

    def _flood(self) -> Any:
        return "x" * 10**7

    def _surrogates(self) -> Any:
        return "\ud800\x00<|im_end|>"

    def _bytes(self) -> Any:
        return b"result"

    def _nan(self) -> Any:
        return End(reward=float("nan"))

    def _turn_reward(self) -> Any:
        return Say("next", reward=float("inf"))

    def _text_reward(self) -> Any:
        return End(reward="good")

    def _lambda(self) -> Any:
        self.bag = lambda: 0
        return "next"

    def _grow(self) -> Any:
        self.bag.append(bytes(20_000_000))
        return "next"

    def _fork(self) -> Any:
        if os.fork() == 0:
            return End(reward=0.5)
        return End(reward=1.0)

    def _noise(self) -> Any:
        random.seed(1)
        signal.setitimer(signal.ITIMER_REAL, 3600)
        print("x" * 10**6)
        return End(reward=1.0)
