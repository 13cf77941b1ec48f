"""What an advantage follows, before anything else of a run changes it."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.analysis.statement.exact import exact_lines
from ada_lightning.analysis.statement.inexact import inexact_lines
from ada_lightning.core.protocols import Advantage, Sampler, Selection
from ada_lightning.methods.advantages import BatchWhitenedAdvantage, ExactAdvantage


def followed(
    advantage: Advantage, sampler: Sampler, selection: Selection, *, is_equal: bool, is_mean: bool
) -> list[str]:
    """Say what the advantage follows; of one that is whitened, what it followed before.

    Arguments are those of :func:`~ada_lightning.analysis.statement.inexact.inexact_lines`.
    """
    if isinstance(advantage, BatchWhitenedAdvantage):
        inner = followed(advantage.advantage, sampler, selection, is_equal=is_equal, is_mean=is_mean)
        return [*no_longer_exact(inner), f"  {advantage.caveat()}"]
    if isinstance(advantage, ExactAdvantage):
        return exact_lines(advantage.objective, sampler)
    return inexact_lines(advantage, sampler, selection, is_equal=is_equal, is_mean=is_mean)


def no_longer_exact(lines: Sequence[str]) -> list[str]:
    """Take back what the first line promises."""
    first = lines[0].replace("increases the mean", "increases about the mean", 1)
    return [first.replace(", exactly as far as", ", as far as", 1).replace(", exactly", "", 1), *lines[1:]]
