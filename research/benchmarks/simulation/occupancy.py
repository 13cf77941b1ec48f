"""How many sequences run at each moment, and a picture of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from research import plotting
from research.benchmarks.simulation.replica import Span


def trace(spans: Sequence[Span]) -> list[tuple[float, int]]:
    """Sum the replicas' spans.

    Returns:
        (second, sequences running on all replicas from then on), ascending; the last number is 0.

    Example:
        >>> trace([Span(0.0, 2.0, 3), Span(1.0, 2.0, 4)])
        [(0.0, 3), (1.0, 7), (2.0, 0)]
    """
    changes: dict[float, int] = {}
    for span in spans:
        changes[span.start_s] = changes.get(span.start_s, 0) + span.num_running
        changes[span.end_s] = changes.get(span.end_s, 0) - span.num_running
    running, points = 0, []
    for second in sorted(changes):
        if changes[second]:
            running += changes[second]
            points.append((second, running))
    return points


def draw(traces: Mapping[str, Sequence[tuple[float, int]]], path: Path, title: str) -> None:
    """Write a picture of occupancy over time."""
    figure, axes = plotting.panels(figsize=(8, 3.6))
    for name, points in traces.items():
        seconds, running = zip(*points, strict=True)
        axes.step(seconds, running, where="post", label=f"{name} ({seconds[-1]:.0f} s)", linewidth=1.3)
    axes.set(xlabel="seconds", ylabel="sequences running", title=title, ylim=(0, None), xlim=(0, None))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    plotting.save(figure, path, 130)
