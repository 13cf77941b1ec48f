"""Says of all settings at once which of them cannot work."""

from __future__ import annotations


def refuse(*problems: str | bool) -> None:
    """Raise one error for all problems; write each as ``is_wrong and "what is wrong, the value, the way out"``.

    Raises:
        ValueError: there is a problem.

    Example:
        >>> refuse(1 > 2 and "not said")
        >>> refuse(2 > 1 and "rank must be ...; got 0", 3 > 1 and "alpha must be ...; got -1")
        Traceback (most recent call last):
        ValueError: rank must be ...; got 0; alpha must be ...; got -1
    """
    if found := [problem for problem in problems if isinstance(problem, str) and problem]:
        raise ValueError("; ".join(found))
