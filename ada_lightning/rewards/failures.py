"""Why grading a response failed, and what the response is worth then.

What is left out of the evidence must not depend on the policy, or it learns to be ungradable where it is wrong. So a
failure of the response's own making is worth 0, and left out are only those that say nothing about the response. In
doubt it is a 0: for a failure that strikes at random that is noise, and no other objective.

Worth 0 (``Verdict.reward`` is 0):

- ``timeout``: the time limit passed (also for a worker that left with exit code 0 in the middle of a grade),
- ``crash``: its worker died,
- ``memory``: it needed more memory than a worker may have,
- ``invalid_reward``: the reward returned something other than a finite number,
- the class name of any other exception that the reward raised.

Of the first three the second in a row counts: one may be a busy machine's.

Left out (``Verdict.reward`` is None):

- the class name of an ``OSError``, or of an exception raised ``from`` one, the second in a row: a server or a file that
  cannot be reached. ``ConnectionError`` and ``TimeoutError`` are of this kind,
- ``NotApplicableError``: the reward does not apply to the prompt,
- ``pool_broken``: the pool of workers broke twice while the response was pending,
- ``reward_not_loaded``: a replacement worker could not load the reward.
"""

from __future__ import annotations

import signal

from pebble import ProcessExpired

from ada_lightning.core.records import Verdict

MEMORY_EXIT_CODE = 92
"""Of a worker that leaves because a response needed more memory than it may have: what it holds goes with it."""


class NotApplicableError(Exception):
    """This reward does not apply to this prompt.

    By itself that is a failed grade, ``NotApplicableError``, and the response is left out of the evidence. A component
    of a weighted sum is left out of the sum.
    """


def raised(error: BaseException, detail: str) -> tuple[Verdict, bool]:
    """Grade of a response whose reward raised, and whether another try may succeed.

    It may where a file, a server or the system failed: an ``OSError``, or what a library raised from one.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__  # and not the context: what text did to a handler of an OSError is the text's doing
    is_outage = cause is not None
    reward = None if is_outage or isinstance(error, NotApplicableError) else 0.0
    return Verdict(reward, failure=type(error).__name__, detail=detail), is_outage


def lost(error: BaseException, setting: str = "reward") -> Verdict:
    """Grade of a response that its worker did not answer, by what the pool of processes says of it.

    Args:
        error: of the pool.
        setting: node of the configuration that has the limits.

    Example:
        >>> lost(TimeoutError()).reward, lost(TimeoutError()).failure, lost(EOFError()).reward
        (0.0, 'timeout', None)
    """
    if isinstance(error, TimeoutError):
        return Verdict(0.0, failure="timeout", detail=f"no verdict within {setting}.time_limit_s")
    if isinstance(error, MemoryError) or getattr(error, "exitcode", None) == MEMORY_EXIT_CODE:
        return Verdict(0.0, failure="memory", detail=f"the response needs more than {setting}.memory_limit_gb")
    if isinstance(error, ProcessExpired):
        code = error.exitcode
        ending = f"was ended by a signal: {signal.strsignal(-code)}" if code < 0 else f"left with code {code}"
        return Verdict(0.0, failure="crash", detail=f"its worker {ending}")
    return Verdict(None, failure=type(error).__name__, detail=str(error))
