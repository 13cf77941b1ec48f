"""Does another forecast find more groups with a signal? ``python -m research.studies.forecast``.

Goes through the prompts that stored runs of the real model sampled (``docs/studies/real_model/visits.jsonl``), step by
step. Before each step every rule takes a quarter of its prompts, by what the steps before have shown, and is held
against what the step's groups of four then showed. Writes ``docs/studies/forecast/replay.json`` in three minutes;
``--steps N`` stops each run after so many steps.
"""

from __future__ import annotations

import argparse
import json

from research.benchmarks.report import header, lines_of
from research.studies.forecast.replay import replayed, steps_of
from research.studies.forecast.tables import FILE, TABLES
from research.studies.real_model.calibration import runs, training_prompts
from research.studies.real_model.setting import LONG


def main() -> None:
    """Replay, save and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="of each run, at least 2; all of them if not given")
    last = parser.parse_args().steps
    if last is not None and last < 2:
        parser.error(f"--steps must be at least 2, since forecasts are made from the second step on; got {last}")
    prompts, rows = training_prompts(), []
    for run in runs():
        steps = steps_of(run["steps"][:last], prompts)
        rows += replayed(run["name"], steps)
        print(f"{run['name']}: {len(steps)} steps replayed", flush=True)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    content = {"response_tokens": response_tokens(), "rows": rows}
    FILE.write_text(lines_of(header("research.studies.forecast") | content))
    for name, table in TABLES.items():
        print(f"\n{name}\n{table()}", end="")


def response_tokens() -> float:
    """Return the mean length of a response in the stage whose visits are stored, over the runs of its tuning."""
    found = [json.loads(line) for line in LONG.tuning_results.read_text().splitlines()]
    return round(sum(row["generated_tokens"] for row in found) / sum(row["responses"] for row in found), 1)


if __name__ == "__main__":
    main()
