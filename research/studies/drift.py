"""How well what is remembered foretells what is drawn next: ``python -m research.studies.drift``.

Goes through the prompt logs of runs again, step by step: what an estimator expects of a prompt, then what was drawn of
it. Nothing is trained; the runs are those of the other studies, as far as they are on this machine
(``python -m research.studies.smollm2.compare``, ``python -m research.studies.field.compare``). Results stay in
``docs/studies/drift/runs.json``. ``--anew`` measures all again.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from statistics import StatisticsError, correlation, fmean
from typing import Any, Protocol

from scipy.special import betaln

from ada_lightning.core.records import Belief, Prompt
from ada_lightning.methods.estimators import BetaHistory, SimilarPrompts, WordEmbedding
from ada_lightning.methods.estimators.binomial_process import Array, ProcessFit, Sites, fit_laplace
from ada_lightning.methods.estimators.tally import summed
from research.benchmarks.report import DOCS, markdown
from research.studies.runs import ROOT

FILE = DOCS / "studies" / "drift" / "runs.json"
LOGS = {
    "SmolLM2 sums": "smollm2/**/chain_sum/*/prompts.csv",
    "SmolLM2 products": "smollm2/**/products/*/prompts.csv",
    "field": "field/runs/ada-lr*/prompts.csv",
}
"""By model and task: prompt logs, below the folder of runs."""
_FIRST_STEPS = 10
"""Steps that are not counted: a memory has to begin."""

Visit = tuple[str, int, int]
"""Prompt id, positives, responses."""
Runs = Sequence[Mapping[str, Mapping[str, Mapping[str, float]]]]
"""Results of :func:`measured`, of several logs."""
_MEMORIES = ("counts", "counts with drift", "Laplace, scales given", "Laplace", "similar prompts")


class Memory(Protocol):
    """What is asked about the prompts of a step, and then told what was drawn of them."""

    def recall(self, prompts: Sequence[Prompt]) -> Sequence[Belief]:
        """Return what is expected of each prompt."""
        ...

    def learn_step(self, visits: Sequence[tuple[Prompt, int, int]]) -> None:
        """Learn from the visits of a step, each prompt once."""
        ...


class Counts(BetaHistory):
    """Each prompt's own counts, with or without drift."""

    def learn_step(self, visits: Sequence[tuple[Prompt, int, int]]) -> None:
        """Learn from the visits of a step."""
        self.learn({prompt.prompt_id: (positives, responses) for prompt, positives, responses in visits})


class Similar(SimilarPrompts):
    """A process over all prompts, placed by their words."""

    def __init__(self, prompts: Sequence[Prompt], *, scale_width: float = 1.0) -> None:
        super().__init__(embedding=WordEmbedding(), scale_width=scale_width)
        self.check_prompts(prompts)

    def learn_step(self, visits: Sequence[tuple[Prompt, int, int]]) -> None:
        """Learn from the visits of a step."""
        self.learn(visits)


class Laplace(Similar):
    """The same by Laplace's approximation alone, with scales that are found or (a width of 0) those that are given."""

    def _settled(self, covariance_VV: Array, positives_V: Array, responses_V: Array, start: Sites | None) -> ProcessFit:
        return fit_laplace(covariance_VV, positives_V, responses_V)[0]


def visits(log: Path) -> Iterator[list[Visit]]:
    """Return the visits of each step of a prompt log."""
    with log.open(newline="") as file:
        for _, rows in groupby(csv.DictReader(file), key=lambda row: row["step"]):
            seen = [(row["prompt_id"], int(row["num_positive"]), int(row["num_sampled"])) for row in rows]
            yield [visit for visit in seen if visit[2]]


def foretold(
    steps: Sequence[Sequence[Visit]], memory: Memory, prompts: Mapping[str, Prompt]
) -> dict[str, dict[str, float]]:
    """Return how well a memory foretells the draws of prompts.

    Returns:
        For ``known`` prompts, which the log has had before, and ``new`` ones: ``log_loss``, of the mean of what is
        believed, in nats per response; ``belief_loss``, of all that is believed: minus the logarithm of the chance of
        the counts under the Beta distribution, in nats per response, without the binomial coefficient; ``correlation``
        of the p (1 - p) expected of a visit, its mean under that distribution, with the unbiased estimate of it from
        what was drawn, over visits with two responses or more, nan where one of them is always the same;
        ``mean_error``, the pass rate drawn minus the one expected; ``visits``, how many.
    """
    found = {"known": _Foretold(), "new": _Foretold()}
    had: set[str] = set()
    for number, step in enumerate(steps):
        expected = memory.recall([prompts[prompt_id] for prompt_id, _, _ in step])
        if number >= _FIRST_STEPS:
            for (prompt_id, positives, responses), belief in zip(step, expected, strict=True):
                kind = "known" if prompt_id in had else "new"
                found[kind].add(belief, positives, responses)
        had.update(prompt_id for prompt_id, _, _ in step)
        memory.learn_step([(prompts[prompt_id], *counts) for prompt_id, counts in summed(step).items()])
    return {kind: figures.means() for kind, figures in found.items()}


class _Foretold:
    """What was expected and drawn of visits."""

    def __init__(self) -> None:
        self._losses: list[float] = []
        self._belief_losses: list[float] = []
        self._errors: list[float] = []
        self._spreads: list[tuple[float, float]] = []

    def add(self, belief: Belief, positives: int, responses: int) -> None:
        alpha, beta, rate, wrong = belief.alpha, belief.beta, belief.mean, responses - positives
        chance = float(betaln(alpha + positives, beta + wrong) - betaln(alpha, beta))
        self._belief_losses.append(-chance / responses)
        self._losses.append(-(positives * math.log(rate) + wrong * math.log(1 - rate)) / responses)
        self._errors.append(positives / responses - rate)
        if responses > 1:
            expected = alpha * beta / ((alpha + beta) * (alpha + beta + 1))
            self._spreads.append((expected, positives * wrong / (responses * (responses - 1))))

    def means(self) -> dict[str, float]:
        if not self._losses:
            return {"visits": 0}
        try:
            related = correlation(*zip(*self._spreads, strict=True))
        except (StatisticsError, TypeError):  # always the same; no visit with two responses
            related = math.nan
        return {
            "log_loss": fmean(self._losses),
            "belief_loss": fmean(self._belief_losses),
            "correlation": related,
            "mean_error": fmean(self._errors),
            "visits": len(self._losses),
        }


def measured(log: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Return :func:`foretold` of a prompt log by the name of the memory."""
    from hydra.utils import instantiate

    from ada_lightning.run.stored_settings import read_settings
    from ada_lightning.run.trust import check_stored

    stored = read_settings(log.with_name("config.yaml"))["data"]
    check_stored({"data": stored}, config_dir=ROOT / "conf", argv=(), where=str(log.parent))
    source = instantiate(stored["source"])
    prompts = {prompt.prompt_id: prompt for prompt in source.train_prompts()}
    steps = list(visits(log))
    memories: dict[str, Memory] = {
        "counts": Counts(),
        "counts with drift": Counts(drift_visits=256),
        "Laplace, scales given": Laplace(list(prompts.values()), scale_width=0.0),
        "Laplace": Laplace(list(prompts.values())),
        "similar prompts": Similar(list(prompts.values())),
    }
    return {name: foretold(steps, memory, prompts) for name, memory in memories.items()}


def table() -> str:
    """Return the committed results by where the logs are from, means over logs, beside how often a loss is lower."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for name, result in json.loads(FILE.read_text()).items():
        place = next(each for each in LOGS if name.startswith(f"{each} "))
        groups.setdefault(f"{place}{'' if 'similar prompts' in result else ', earlier'}", []).append(result)
    rows = [
        [place, memory, *(figure for kind in ("known", "new") for figure in _figures(runs, memory, kind))]
        for place, runs in sorted(groups.items())
        for memory in _MEMORIES
        if memory in runs[0]
    ]
    head = [f"{figure}, {kind}" for kind in ("known", "new") for figure in ("loss", "below counts", "correlation")]
    return markdown(["logs", "memory", *head], rows)


def _figures(runs: Runs, memory: str, kind: str) -> tuple[str, str, str]:
    """Return loss, how often it is below that of counts (nothing where it is the same), and correlation."""
    there = [run for run in runs if run[memory][kind]["visits"]]
    below = sum(run[memory][kind]["belief_loss"] < run["counts"][kind]["belief_loss"] for run in there)
    differs = any(run[memory][kind]["belief_loss"] != run["counts"][kind]["belief_loss"] for run in there)
    often = f"{below} of {len(there)}" if differs else "-"
    return _mean(there, memory, kind, "belief_loss"), often, _mean(there, memory, kind, "correlation")


def _mean(runs: Runs, memory: str, kind: str, key: str) -> str:
    found = [run[memory][kind][key] for run in runs if not math.isnan(run[memory][kind][key])]
    return f"{fmean(found):.3f}" if found else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the runs that are here and were not measured yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anew", action="store_true", help="measure those too that have a result")
    parser.add_argument("--jobs", type=int, default=2, help="logs at once, one core each")
    options = parser.parse_args(arguments)
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    logs = {
        f"{place} {log.parent.name.removeprefix('chain_sum-').removeprefix('products-')}": log
        for place, pattern in LOGS.items()
        for log in sorted((ROOT / "runs").glob(pattern))
        if (log.parent / "summary.json").exists()
    }
    missing = [name for name in logs if options.anew or name not in results]
    with ProcessPoolExecutor(options.jobs) as pool:
        running = {pool.submit(measured, logs[name]): name for name in missing}
        for done in as_completed(running):
            results[running[done]] = done.result()
            FILE.parent.mkdir(parents=True, exist_ok=True)
            FILE.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
    print(table())


if __name__ == "__main__":
    main()
