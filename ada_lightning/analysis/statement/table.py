"""A few figures by pass rate, as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PASS_RATES = (0.02, 0.1, 0.5, 0.9)
"""Where figures are given: a hard prompt, a difficult one, an even one, a nearly solved one."""


def table_lines(rows: Mapping[str, Sequence[float]]) -> list[str]:
    r"""Lay out one row of figures per name under a row of the pass rates, three digits each.

    Example:
        >>> print(*table_lines({"wanted": [50.0, 10.0, 2.0, 1 / 0.9]}), sep="\n")
          p         0.02     0.1     0.5     0.9
          wanted      50      10       2    1.11
    """
    width = max(map(len, rows))
    return [
        f"  {name:<{width}}" + "".join(f"{value:>8.3g}" for value in values)
        for name, values in ({"p": PASS_RATES} | dict(rows)).items()
    ]


def differ(ones: Sequence[float], others: Sequence[float]) -> bool:
    """Whether some pair differs by more than a hundredth of the first."""
    return any(abs(one - other) > 0.01 * abs(one) for one, other in zip(ones, others, strict=True))
