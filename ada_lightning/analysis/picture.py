"""A picture of a run or an evaluation, as a PNG file in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ada_lightning.run.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@contextmanager
def picture(target: Path, *, title: str, size: tuple[float, float]) -> Iterator[Figure]:
    """Give a figure to draw on; where the block succeeds it is written, whole, in the place of an earlier one.

    Args:
        target: a PNG file.
        title: stands above the plots.
        size: width and height in inches.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title)
    yield figure
    with replacing(target) as temporary:
        figure.savefig(temporary, dpi=110, format="png")


def whole_numbers(axes: Axes) -> None:
    """Label the x axis with whole numbers only."""
    locator: Any = axes.xaxis.get_major_locator()
    locator.set_params(integer=True)
