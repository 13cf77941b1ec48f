"""Is what the forecast expects of prompts what they show? ``python -m research.studies.real_model.calibration``.

Goes through the prompts that runs of the long stage sampled, step by step, with ``estimator=similar_prompts`` as it
would have learned from them, and holds E[p (1 - p)] of each prompt, before its step, against what its four responses
then showed: with and without ``spread_scale``. Writes ``docs/studies/real_model/calibration.json``; ``--take RUN_FOLDER
...`` first puts the prompts of runs into ``visits.jsonl`` beside it.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.records import Prompt
from ada_lightning.methods.estimators import SimilarPrompts, WordEmbedding
from ada_lightning.methods.estimators.logit_prior import expected_spread, shown_spread
from research.benchmarks.report import save
from research.drive import composed
from research.studies.real_model.setting import LONG, RESULTS, task_settings

VISITS = RESULTS / "visits.jsonl"
SCALES = (0.0, 0.05, 0.1, 0.2)
CHOSEN_RATIO = 4
"""Of so many prompts of a step the one expected to differ most is looked at: as many as a curriculum has candidates."""


class Visit(NamedTuple):
    """A prompt that was sampled."""

    prompt: Prompt
    positives: int
    responses: int

    @property
    def has_signal(self) -> bool:
        """Whether its responses differ."""
        return 0 < self.positives < self.responses


def take(folder: Path) -> None:
    """Keep the prompts that a run sampled, by step."""
    with (folder / "prompts.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            (int(row["step"]), row["prompt_id"], row["num_positive"], row["num_sampled"])
            for row in csv.DictReader(file)
            if (row.get("hint") or "0") == "0"
        ]
    steps = [
        [[prompt_id, int(positives), int(responses)] for _, prompt_id, positives, responses in of_step]
        for _, of_step in groupby(rows, key=lambda row: row[0])
    ]
    known = {row["name"]: row for row in runs()} | {folder.name: {"name": folder.name, "steps": steps}}
    VISITS.write_text("".join(json.dumps(row) + "\n" for row in known.values()))


def runs() -> list[dict[str, Any]]:
    """Return the runs whose prompts are kept."""
    return [json.loads(line) for line in VISITS.read_text().splitlines()] if VISITS.exists() else []


def training_prompts() -> dict[str, Prompt]:
    """Return the prompts of the long stage, by id."""
    from hydra.utils import instantiate

    data = [each for each in task_settings(LONG.num_train) if each.startswith("data")]
    source = instantiate(composed("train", [*data, "run_name=calibration"]).data.source)
    return {prompt.prompt_id: prompt for prompt in source.train_prompts()}


def replayed(
    steps: Sequence[Sequence[Visit]], prompts: Mapping[str, Prompt], scale: float
) -> Iterator[tuple[NDArray[np.float64], Sequence[Visit]]]:
    """Yield what was expected of the spread of each prompt of a step, and the step, from the second on."""
    estimator = SimilarPrompts(embedding=WordEmbedding(), spread_scale=scale)
    estimator.check_prompts(list(prompts.values()))
    for number, visits in enumerate(steps):
        beliefs = estimator.recall([visit.prompt for visit in visits])
        if number:
            parameters = ([getattr(belief, name) for belief in beliefs] for name in ("alpha", "beta"))
            yield expected_spread(*map(np.array, parameters)), visits
        estimator.learn(visits)


def figures(found: Sequence[tuple[NDArray[np.float64], Sequence[Visit]]]) -> dict[str, float]:
    """Return how good forecasts are, of the second half of steps, when the policy has learned."""
    late = found[len(found) // 2 :]
    expected_P = np.concatenate([each for each, _ in late])
    visits = [visit for _, of_step in late for visit in of_step]
    shown_P = np.array([shown_spread(visit.positives, visit.responses) for visit in visits])
    is_known_P = np.isfinite(shown_P)
    chosen = [
        of_step[index].has_signal
        for each, of_step in late
        for index in np.argsort(-each, kind="stable")[: len(of_step) // CHOSEN_RATIO]
    ]
    return {
        "expected": float(expected_P[is_known_P].mean()),
        "shown": float(shown_P[is_known_P].mean()),
        "correlation": float(np.corrcoef(expected_P[is_known_P], shown_P[is_known_P])[0, 1]),
        "signal_of_chosen": float(np.mean(chosen)),
        "signal_of_all": float(np.mean([visit.has_signal for visit in visits])),
    }


def main() -> None:
    """Replay, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--take", type=Path, nargs="*", default=[], metavar="RUN_FOLDER", help="keep their prompts first"
    )
    for folder in parser.parse_args().take:
        take(folder)
    prompts, rows = training_prompts(), []
    for run in runs():
        steps = [[Visit(prompts[prompt_id], *counts) for prompt_id, *counts in step] for step in run["steps"]]
        for scale in SCALES:
            rows.append({"run": run["name"], "spread_scale": scale, **figures(list(replayed(steps, prompts, scale)))})
            print(rows[-1], flush=True)
    save("calibration", folder=RESULTS, rows=rows)


if __name__ == "__main__":
    main()
