"""The curve of ``examples/one_file.py``: ``python -m research.benchmarks.one_file``.

Runs the example as it stands, ten minutes on two cores with AVX-512. Writes ``docs/one_file.json`` with the figures of
every step and ``docs/one_file.png``, the picture of ``docs/own_loop.md``. ``--draw`` draws the figures that are there.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from research.benchmarks.report import DOCS, save
from research.plotting import panels
from research.plotting import save as save_picture

WINDOW = 5
"""Steps that the line is a mean over: a step's pass rate is that of 64 responses."""


def main() -> None:
    """Run, or read what a run left, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="draw docs/one_file.json and run nothing")
    if not parser.parse_args().draw:
        from examples.one_file import train

        save("one_file", folder=DOCS, steps=train(num_steps=30, prompts_per_step=16, lr=1e-5, seed=0))
    draw(json.loads((DOCS / "one_file.json").read_text())["steps"])


def draw(steps: list[dict[str, Any]]) -> None:
    """Draw the pass rate of the first block and the responses drawn, by step."""
    figure, (rate, drawn) = panels(1, 2, figsize=(8.0, 2.6))
    numbers = range(1, len(steps) + 1)
    values = [step["pass_rate"] for step in steps]
    means = [sum(values[max(0, end - WINDOW) : end]) / min(end, WINDOW) for end in numbers]
    rate.plot(numbers, values, "o", markersize=3, alpha=0.5, label="a step, 64 responses")
    rate.plot(numbers, means, label=f"mean of {WINDOW} steps")
    rate.set(xlabel="step", ylabel="pass rate", ylim=(0, 1))
    rate.legend(loc="lower right", fontsize=8)
    drawn.plot(numbers, [step["responses"] for step in steps], drawstyle="steps-mid")
    drawn.set(xlabel="step", ylabel="responses drawn", ylim=(0, None))
    save_picture(figure, DOCS / "one_file.png")


if __name__ == "__main__":
    main()
