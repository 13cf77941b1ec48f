"""Numbers of the page and the terminal, as people read them."""

from __future__ import annotations

import math

from ada_lightning.audit.intervals import Estimate


def percent(found: Estimate) -> str:
    """Spell a share, its interval in brackets.

    Example:
        >>> percent(Estimate(0.614, 0.55, 0.672)), percent(Estimate(0.004)), percent(Estimate(float("nan")))
        ('61 % [55, 67]', '0.4 %', '-')
    """
    if not math.isfinite(found.value):
        return "-"
    digits = 0 if abs(found.value) >= 0.0995 or found.value == 0 else 1
    text = f"{100 * found.value:.{digits}f} %"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{100 * found.low:.{digits}f}, {100 * found.high:.{digits}f}]"


def number(found: Estimate) -> str:
    """Spell a number with three digits that count, its interval in brackets.

    Example:
        >>> number(Estimate(3.14159, 2.5, 4.0)), number(Estimate(1234.5)), number(Estimate(0.01234))
        ('3.14 [2.50, 4.00]', '1,234', '0.0123')
        >>> number(Estimate(0.00657, -0.283, 0.589))  # as many as its interval lets count
        '0.007 [-0.283, 0.589]'
    """
    if not math.isfinite(found.value):
        return "-"
    size = max(abs(value) for value in (found.value, found.low or 0.0, found.high or 0.0, 1e-9))
    digits = max(0, 2 - math.floor(math.log10(size))) if size < 1000 else 0
    digits = min(digits, 6)
    text = f"{found.value:,.{digits}f}"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{found.low:,.{digits}f}, {found.high:,.{digits}f}]"
