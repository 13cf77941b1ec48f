"""Seconds as a person says them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Spell seconds for a person.

    Example:
        >>> [duration(s) for s in (7.2, 250, 7300)]
        ['7s', '4m10s', '2h01m']
    """
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minute:02d}m"
    return f"{minute}m{second:02d}s" if minute else f"{second}s"
