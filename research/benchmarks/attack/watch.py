"""Notices when grading runs anything: Python's own audit events, counted while a reward is at work."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from ada_lightning.core.protocols import Reward
from ada_lightning.core.records import Completion, Prompt, Verdict

SUSPICIOUS = frozenset(
    (
        "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.putenv", "os.remove",
        "os.rename", "os.mkdir", "subprocess.Popen", "pty.spawn", "socket.__new__", "socket.connect",
        "ctypes.dlopen", "ctypes.dlsym", "pickle.find_class", "marshal.loads", "builtins.input", "code.__new__",
        "shutil.rmtree",
    )
)  # fmt: skip
_MONOMIALS = os.path.join("sympy", "polys", "monomials.py")
_state: dict[str, Any] = {"is_grading": False, "events": 0, "is_hooked": False}


class Watched:
    """Grades as another reward and tells, as components, how long it took and what it ran.

    ``audit_events`` counts, during the call: processes, sockets, unpickling, files opened for writing, and source text
    compiled or code run (``eval`` and ``exec`` are such) that is no module of a library and no template of sympy's.
    ``seconds`` is the time of the call. Libraries are loaded before the first call: a module being imported is compiled
    and run, too.
    """

    def __init__(self, reward: Reward, warm_up: tuple[tuple[str, str], ...] = ()) -> None:
        self.reward = reward
        self.warm_up = warm_up

    def check(self) -> None:
        """Load what grading needs and install the hook; runs in every worker."""
        for gold, text in self.warm_up:
            self.reward(Prompt("warm-up", (), {"answer": gold}), Completion(text))
        sys.dont_write_bytecode = True  # or what algebra loads late would be a file that a response wrote
        if not _state["is_hooked"]:
            sys.addaudithook(_notice)
            _state["is_hooked"] = True

    def __call__(self, prompt: Prompt, completion: Completion) -> Verdict:
        """Grade, watched."""
        _state.update(events=0, is_grading=True)
        start = time.perf_counter()
        try:
            found = self.reward(prompt, completion)
        finally:
            seconds = time.perf_counter() - start
            _state["is_grading"] = False
        verdict = found if isinstance(found, Verdict) else Verdict(found)
        components = {"audit_events": float(_state["events"]), "seconds": seconds}
        return Verdict(verdict.reward, verdict.answer, components)


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    if _state["is_grading"] and _is_suspicious(event, arguments):
        _state["events"] += 1


def _is_suspicious(event: str, arguments: tuple[Any, ...]) -> bool:
    if event in SUSPICIOUS:
        return event != "marshal.loads" or not _is_innocent()
    if event == "open":
        mode = arguments[1]
        return isinstance(mode, str) and any(letter in mode for letter in "wax+")
    if event == "compile":
        return not _is_innocent()
    if event == "exec":
        return not _is_innocent() and str(getattr(arguments[0], "co_filename", "<")).startswith("<")
    return False


def _is_innocent() -> bool:
    """Whether a library is loading a module, which algebra does late, or fills in its own template.

    sympy writes the functions that multiply and divide monomials as text, from the number of variables alone, and runs
    it: ``MonomialOps`` of sympy 1.14. No name or number of an expression is in it.
    """
    frame = sys._getframe(2)
    while frame is not None:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if file == "<frozen importlib._bootstrap>" or (name == "_build" and file.endswith(_MONOMIALS)):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
