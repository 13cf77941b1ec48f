"""Rewards that misbehave on command: the response text says how. Imported by reward workers, so without pytest."""

from __future__ import annotations

import os
import signal
import sys
import time

from ada_lightning.types import Completion, Prompt


class Obedient:
    """Does what the response says, or returns it as a number."""

    def __call__(self, prompt: Prompt, completion: Completion) -> object:
        text = completion.text
        command, _, argument = text.partition(":")
        if command in _ACTIONS:
            return _ACTIONS[command](argument)
        return float(text) + float(prompt.reference.get("bonus", 0))


def _flood(num_chars: str) -> float:
    print("x" * int(num_chars))
    print("x" * int(num_chars), file=sys.stderr)
    return 1.0


def _raise(message: str) -> float:
    raise ZeroDivisionError(message)


class UnsendableError(Exception):
    """Pickles, and cannot be unpickled: its constructor wants two arguments."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")


def _raise_unsendable(_: str) -> float:
    raise UnsendableError(1, "no")


def _nested(_: str) -> list:
    return [1.0]


_ACTIONS = {
    "raise": _raise,
    "unsendable": _raise_unsendable,
    "hang": lambda seconds: time.sleep(float(seconds)),
    "exit": lambda code: os._exit(int(code)),
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "leave": lambda _: sys.exit("bye"),
    "nan": lambda _: float("nan"),
    "inf": lambda _: float("-inf"),
    "none": lambda _: None,
    "text": lambda _: "1.0",
    "nested": _nested,
    "true": lambda _: True,
    "minus": lambda _: -2.5,
    "flood": _flood,
    "pid": lambda _: float(os.getpid()),
    "has_torch": lambda _: "torch" in sys.modules,
}


class Unloadable:
    """Pickles well and fails in the worker."""

    def __call__(self, prompt: Prompt, completion: Completion) -> float:
        return 1.0

    def check(self) -> None:
        raise FileNotFoundError("no such answer key")


def is_twelve(prompt: Prompt, text: str) -> float:
    """Grade for FunctionReward."""
    return float(text == "12")
