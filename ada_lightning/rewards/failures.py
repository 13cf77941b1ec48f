"""Why grading a response failed, and what the response is worth then.

What is left out of the evidence must not depend on the policy, or it learns to be ungradable where it is wrong. So a
failure of the response's own making is worth 0, and left out are only those that say nothing about the response. In
doubt it is a 0: for a failure that strikes at random that is noise, and no other objective.

Worth 0 (``Grade.reward`` is 0):

- ``timeout``: the time limit passed (also for a worker that left with exit code 0 in the middle of a grade),
- ``crash``: its worker died,
- ``memory``: it needed more memory than a worker may have,
- ``invalid_reward``: the reward returned something other than a finite number,
- the class name of any other exception that the reward raised.

Of the first three the second in a row counts: one may be a busy machine's.

Left out (``Grade.reward`` is None):

- the class name of an ``OSError``, or of an exception raised ``from`` one, the second in a row: a server or a file that
  cannot be reached. ``ConnectionError`` and ``TimeoutError`` are of this kind,
- ``NotApplicableError``: the reward does not apply to the prompt,
- ``pool_broken``: the pool of workers broke twice while the response was pending,
- ``reward_not_loaded``: a replacement worker could not load the reward.
"""

from __future__ import annotations

import signal

from pebble import ProcessExpired

from ada_lightning.rewards.worker import MEMORY_EXIT_CODE, Outcome

_OWN_MAKING = ("timeout", "crash", "memory")
"""How a response can stop its worker from answering."""


def lost(error: BaseException) -> Outcome:
    """What became of a response that its worker did not answer.

    Example:
        >>> lost(TimeoutError()).reward, lost(TimeoutError()).failure, lost(EOFError()).reward
        (0.0, 'timeout', None)
    """
    why = reason(error)
    return Outcome(0.0 if why in _OWN_MAKING else None, why, _detail(error))


def reason(error: BaseException) -> str:
    """Name what the pool of processes says of a response."""
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ProcessExpired):
        return "memory" if error.exitcode == MEMORY_EXIT_CODE else "crash"
    if isinstance(error, MemoryError):
        return "memory"
    return type(error).__name__


def _detail(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no verdict within reward.time_limit_s"
    if not isinstance(error, ProcessExpired):
        return str(error)
    if error.exitcode == MEMORY_EXIT_CODE:
        return "the response needs more than reward.memory_limit_gb"
    code = error.exitcode
    return (
        f"its worker was ended by a signal: {signal.strsignal(-code)}"
        if code < 0
        else f"its worker left with code {code}"
    )
