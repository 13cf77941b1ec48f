"""How often a prompt's responses are all alike, and what avoiding it costs: ``python -m research.studies.signal_loss``.

Exact sums over the ends of stopping rules, closed forms, and counts of a model's right responses before and after
training. Writes ``docs/studies/signal_loss/`` and the tables of ``docs/studies/signal_loss.md`` from the counts that
are committed there; a minute, no model. To count a model of your own, move those away and

    python -m research.studies.signal_loss --draw untrained
    python -m research.studies.signal_loss --draw trained checkpoint=runs/<run_name>

What follows ``--draw`` and the name goes to evaluate.py. A draw that was killed goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from research.benchmarks.report import versions
from research.benchmarks.tables import filled
from research.studies.group_signal.draw import CountedDraw, check_same_prompts
from research.studies.group_signal.figures import figures_by_mix, figures_by_rate, studied_mixes
from research.studies.group_signal.measured import measured_figures, read_counts
from research.studies.group_signal.plots import plot_budgets, plot_groups
from research.studies.group_signal.rules import FOLDER, counts_file

MODELS = ("untrained", "trained")
PAGE = FOLDER.parent / "signal_loss.md"


def main() -> None:
    """Draw if asked to, else compute, plot and fill the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=128, help="held-out prompts to draw responses of")
    parser.add_argument("--responses", type=int, default=256, help="responses per prompt")
    parser.add_argument(
        "--draw",
        nargs=argparse.REMAINDER,
        metavar="NAME ARGUMENT",
        help=f"count right responses of a model, {' or '.join(MODELS)}; the arguments of evaluate.py that choose it",
    )
    arguments = parser.parse_args()
    if arguments.draw is not None:
        if not arguments.draw or arguments.draw[0] not in MODELS:
            parser.error(f"--draw needs a name first: {' or '.join(MODELS)}")
        name, *chosen = arguments.draw
        CountedDraw(name, tuple(chosen), arguments.prompts, arguments.responses).complete()
    report()


def report() -> None:
    """Compute everything from the committed counts.

    Models without counts are left out; the page says which figures are missing.
    """
    _save("by_rate", figures_by_rate())
    _save("by_mix", figures_by_mix(studied_mixes()))
    counts = {model: read_counts(counts_file(model)) for model in MODELS if counts_file(model).exists()}
    if len(counts) == len(MODELS):
        check_same_prompts([counts_file(model) for model in MODELS])
        measured = {model: measured_figures(rates) for model, rates in counts.items()}
        _save("measured", measured)
        plot_groups(measured, FOLDER / "groups.png")
        plot_budgets(measured, FOLDER / "budgets.png")
    else:
        missing = [model for model in MODELS if model not in counts]
        print(f"no counts of {' and '.join(missing)}; see --help", file=sys.stderr)
    if PAGE.exists():
        PAGE.write_text(filled(PAGE.read_text()))


def _save(name: str, figures: dict[str, Any]) -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(
        json.dumps(
            {"command": "python -m research.studies.signal_loss", "versions": versions(), "figures": figures}, indent=1
        )
        + "\n"
    )
    return path


if __name__ == "__main__":
    main()
