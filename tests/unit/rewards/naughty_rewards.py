"""Rewards that misbehave on command: the response text says how. Imported by reward workers, so without pytest."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.failures import NotApplicableError


class Obedient:
    """Does what the response says, or returns it as a number."""

    cacheable = False

    def __call__(self, prompt: Prompt, completion: Completion) -> object:
        text = completion.text
        command, _, argument = text.partition(":")
        if command in _ACTIONS:
            return _ACTIONS[command](argument)
        return float(text) + float(prompt.reference.get("bonus", 0))


def _flood(num_chars: str) -> float:
    print("x" * int(num_chars), flush=True)
    print("x" * int(num_chars), file=sys.stderr, flush=True)
    return 1.0


def _raise(message: str) -> float:
    raise ZeroDivisionError(message)


class UnsendableError(Exception):
    """Pickles, and cannot be unpickled: its constructor wants two arguments."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")


def _refused(_: str) -> float:
    raise ConnectionRefusedError("no judge at this address")


class ClientError(Exception):
    """What a client library makes of an error of the network."""


def _refused_to_client(_: str) -> float:
    try:
        raise TimeoutError("the judge did not answer")
    except TimeoutError as error:
        raise ClientError("request failed") from error


def _failed_in_handler(_: str) -> float:
    """The text makes the way round a missing file fail."""
    try:
        os.stat("/no/such/file")
    except OSError:
        raise ValueError("unreadable answer")  # noqa: B904 - as people write it


def _not_applicable(_: str) -> float:
    raise NotApplicableError("another kind of prompt")


def _raise_unsendable(_: str) -> float:
    raise UnsendableError(1, "no")


def _spawn(command: str) -> float:
    """Start a process that would live for long, tell its number, and do something with oneself."""
    child = subprocess.Popen(["sleep", "1000"])
    path, _, end = command.partition(":")
    with open(path, "w") as file:
        file.write(f"{child.pid} {os.getpid()}")
    return _ACTIONS[end.partition(":")[0]](end.partition(":")[2])


def _fork(path: str) -> float:
    """Come back twice, and see who else is there."""
    if os.fork() == 0:
        with open(path, "a") as file:
            file.write("child\n")
        return 0.0
    time.sleep(0.2)
    return 1.0


def _wait_for_children(_: str) -> float:
    subprocess.Popen(["true"])
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return 1.0


def _allocate(megabytes: str) -> float:
    block = bytearray(int(float(megabytes) * 1e6))
    return float(len(block) > 0)


def _hoard(_: str) -> float:
    hoard = []
    while True:
        hoard.append(bytearray(40_000_000))


def _forget_alarm(_: str) -> float:
    signal.alarm(1)
    return 1.0


def _spin(_: str) -> float:
    while True:
        pass


def _nested(_: str) -> list:
    return [1.0]


_ACTIONS = {
    "raise": _raise,
    "refused": _refused,
    "refused_to_client": _refused_to_client,
    "failed_in_handler": _failed_in_handler,
    "not_applicable": _not_applicable,
    "unsendable": _raise_unsendable,
    "hang": lambda seconds: time.sleep(float(seconds)),
    "exit": lambda code: os._exit(int(code)),
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "leave": lambda _: sys.exit("bye"),
    "fork": _fork,
    "spawn": _spawn,
    "wait_for_children": _wait_for_children,
    "allocate": _allocate,
    "hoard": _hoard,
    "alarm": _forget_alarm,
    "spin": _spin,
    "segfault": lambda _: ctypes.string_at(0),
    "session": lambda _: float(os.getsid(0) == os.getpid()),
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


class OnSecondTry:
    """Fails a response the first time, in the way its text says, and grades it the second time."""

    cacheable = False

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, prompt: Prompt, completion: Completion) -> float:
        way, _, number = completion.text.rpartition("#")
        seen = os.path.join(self.folder, number)
        if os.path.exists(seen):
            return float(number)
        open(seen, "w").close()
        command, _, argument = way.partition(":")
        return _ACTIONS[command](argument)


class Leaking:
    """Keeps what each response asks for, until there is no room."""

    cacheable = False

    def __init__(self) -> None:
        self.kept: list[bytearray] = []

    def __call__(self, prompt: Prompt, completion: Completion) -> float:
        self.kept.append(bytearray(int(float(completion.text) * 1e6)))
        return float(len(self.kept))


class SlowToImport:
    """Needs a library that it imports late."""

    modules = ("tests.unit.rewards.slow_to_import",)

    def __call__(self, prompt: Prompt, completion: Completion) -> float:
        from tests.unit.rewards import slow_to_import  # noqa: F401

        return 1.0


class Unloadable:
    """Pickles well and fails in the worker."""

    def __call__(self, prompt: Prompt, completion: Completion) -> float:
        return 1.0

    def check(self) -> None:
        raise FileNotFoundError("no such answer key")


class Counting:
    """The number of responses that this process has graded, and an opinion on prompts."""

    def __init__(self) -> None:
        self.num_graded = 0

    def __call__(self, prompt: Prompt, completion: Completion) -> float:
        self.num_graded += 1
        if completion.text == "fail":
            raise LookupError(self.num_graded)
        return float(self.num_graded)

    def check_prompt(self, prompt: Prompt) -> None:
        command = prompt.reference.get("check", "")
        if command == "unusable":
            raise ValueError("no number")
        if command:
            _ACTIONS[command.partition(":")[0]](command.partition(":")[2])


class ByFirstLetter(Counting):
    """Only the first letter counts; a response without one has no key."""

    def cache_key(self, completion: Completion) -> str:
        return completion.text[0]


class Detailed:
    """All that a verdict can say."""

    def __call__(self, prompt: Prompt, completion: Completion) -> Verdict:
        return Verdict(0.5, completion.finish_reason, {"a": 1, "b": float(completion.text)})
