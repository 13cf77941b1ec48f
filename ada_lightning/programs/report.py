"""Reads runs and writes the page that compares them."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.analysis.report.method import group_runs
from ada_lightning.analysis.report.page import Report, figure_text, make_report, write_report
from ada_lightning.analysis.report.run import find_runs, load_run
from ada_lightning.run.terminal import start_of, until_nobody_reads

EXAMPLES = """
examples:
  {start} runs/first                               one run
  {start} runs/grpo_chosen-* runs/grpo-*           every run that matches
  {start} runs/my_sweep                            all runs below a folder
  {start} runs/a runs/b --output a_and_b.html --title "A and B" --level 0.4

Runs that differ only in their seed count as one method, shown with mean and range. A run may still be in progress.
"""


@until_nobody_reads()
def main(argv: Sequence[str] | None = None) -> None:
    """Read, compare, write."""
    arguments = _arguments(argv)
    try:
        found, remarks = find_runs(arguments.runs, runs_dir=arguments.runs_dir)
        for remark in remarks:
            print(f"left out: {remark}", file=sys.stderr)
        methods = group_runs([load_run(run) for run in found])
        title = arguments.title or " / ".join(method.name for method in methods)
        report = make_report(
            methods, title=title, level=arguments.level, num_samples=arguments.samples, remarks=remarks
        )
        files = write_report(report, arguments.output)
    except (ValueError, OSError) as error:
        sys.exit("\n".join(f"error: {line}" for line in str(error).splitlines()))
    print("\n".join(_lines(report)))
    print(f"{files[0]} (numbers: {files[1].name}; {len(files) - 2} pictures: {files[0].stem}_files/)")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    start = " ".join(start_of("report"))
    parser = argparse.ArgumentParser(
        prog=start,
        description="Compare training runs on one HTML page: by steps, by generated tokens and by seconds.",
        epilog=EXAMPLES.format(start=start),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", help="folders of runs, folders that hold runs, patterns, or names of runs")
    parser.add_argument("--output", type=_html, default=Path("report.html"), help="the page (default: report.html)")
    parser.add_argument("--title", help="title of the page (default: the names of the methods)")
    parser.add_argument(
        "--level",
        type=_level,
        help="compare what it cost to reach this held-out avg@k (default: the highest that all runs reached)",
    )
    parser.add_argument(
        "--samples", type=_count, default=6, help="number of prompts whose responses are shown (default: 6)"
    )
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), help="folder in which runs are found by name (default: runs)"
    )
    return parser.parse_args(argv)


def _html(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".html", ".htm"):
        raise argparse.ArgumentTypeError(f"{text} must end in .html: numbers and pictures are named after it")
    return path


def _level(text: str) -> float:
    try:
        if math.isfinite(level := float(text)):
            return level
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text} is no level of avg@k; use a finite number such as 0.4")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number of prompts; use 0 or more")
    return int(text)


def _lines(report: Report) -> list[str]:
    """Spell the held-out figures for the terminal."""
    columns = {column.key: column for column in report.table.columns}
    width = max(len(method.name) for method in report.methods)
    lines = []
    for index, method in enumerate(report.methods):
        before, after = (columns[key].figures[index] for key in ("heldout_before", "heldout_after"))
        start, end = (figure_text(figure.mean if figure else None) for figure in (before, after))
        text = f"{method.name:{width}}  held-out {start} -> {end}"
        if after and after.num_seeds > 1:
            text += f" ({after.low:.3f} to {after.high:.3f}, {after.num_seeds} seeds)"
        lines.append(text)
    return lines


if __name__ == "__main__":
    main()
