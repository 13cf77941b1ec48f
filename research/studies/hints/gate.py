"""Does a part of a solution help? ``python -m research.studies.hints.gate``.

Draws 8 responses of each of 128 hard prompts under each level of its worked solution, as ``hints=prefix`` cuts it, and
without. Hints can only work where the pass rate passes 1/2, or at least leaves 0, before the answer is given away.
Writes ``docs/studies/hints/gate.json``. Goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import reasoning_gym

from ada_lightning.core.hint import shows
from ada_lightning.data.solutions import ends_of_parts
from ada_lightning.training.models.cache import prepare_once
from research.benchmarks.report import markdown
from research.studies.real_model.setting import MAX_NEW_TOKENS, START
from research.studies.real_model.tasks import worked
from research.studies.real_model.warm_up import checksum, warm_up
from research.studies.runs import ROOT

HARD: Mapping[str, Mapping[str, Any]] = {
    "gcd": {"min_numbers": 2, "max_numbers": 2, "min_value": 20, "max_value": 299},
    "lcm": {"min_numbers": 2, "max_numbers": 2, "min_value": 10, "max_value": 99},
    "prime_factorization": {"min_value": 100, "max_value": 4999},
    "fraction_simplification": {
        "min_value": 5,
        "max_value": 40,
        "min_factor": 2,
        "max_factor": 20,
        "styles": ["plain"],
    },
}
"""The first ranges of the study of a real model, which its own gate refused as too hard (gate_first_ranges.json)."""
NUM_PROMPTS, NUM_SAMPLES = 128, 8
SEED = 700_000_000
"""Far from the seeds of the warm-up and of other studies."""
RESULTS = ROOT / "docs" / "studies" / "hints"
LEFT = ("none given", "1/4", "2/4", "3/4", "4/4")
"""Quarters of the levels that a solution has: 4/4 is the last one that does not show the answer."""


def rows(num_prompts: int = NUM_PROMPTS) -> Iterator[dict[str, Any]]:
    """Yield a row for every prompt and level, in an order in which a part of them is a sample of all.

    ``task`` says which task, which level, and how many there are. Level 0 is the bare prompt.
    """
    per_task = num_prompts // len(HARD)
    streams = {
        task: islice(reasoning_gym.create_dataset(task, **settings, seed=SEED, size=per_task), per_task)
        for task, settings in HARD.items()
    }
    for _ in range(per_task):
        for task, stream in streams.items():
            entry = next(stream)
            text = worked(task, entry)
            places = [place for place in ends_of_parts(text) if not shows(text[:place], entry["answer"])]
            for level, place in enumerate((0, *places)):
                turns = [{"role": "user", "content": entry["question"]}]
                if place:
                    turns.append({"role": "assistant", "content": text[:place]})
                name = f"{task}/{level}/{len(places)}"
                yield {"prompt": turns, "answer": entry["answer"], "task": name, "num_given": place}


def draw(start: Path, folder: Path, num_prompts: int) -> Path:
    """Draw and grade the responses with ``prepare.py``, which goes on where it was; return its table of prompts."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "prompts.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows(num_prompts)))
    command = [
        *(sys.executable, str(ROOT / "prepare.py"), "model=pretrained", f"model.path={start}", "data=dataset"),
        *(
            f"data.source.path={data}",
            "data.source.task_column=task",
            "data.source.num_heldout=0",
            "data.source.seed=0",
        ),
        *("reward=exact_match", "reward.reward.extraction._target_=ada_lightning.rewards.extraction.TaggedAnswer"),
        *("+reward.reward.extraction.tag=a", f"rollout.sampling.max_new_tokens={MAX_NEW_TOKENS}"),
        *("rollout=transformers", f"rollout.max_model_tokens={256 + MAX_NEW_TOKENS}", "data.max_prompt_tokens=256"),
        *("rollout.engine.max_num_seqs=64", f"num_samples={NUM_SAMPLES}", f"run_dir={folder / 'drawn'}"),
        "prompts_per_file=16",
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder / "drawn" / "prompts.parquet"


def figures(counts: Sequence[tuple[str, int, int]]) -> dict[str, Any]:
    """Return pass rates by task and by the share of its levels that was given, and what decides.

    Args:
        counts: ``task/level/levels``, positives and responses of each prompt under each level, in the order of
            :func:`rows`.

    Returns:
        By task: pass rate and responses by share of the levels; ``all_wrong``, the prompts of which every response
        without a hint was wrong; ``mixed``, those of them that have a level with right and wrong responses.

    Example:
        >>> found = figures([("gcd/0/2", 0, 8), ("gcd/1/2", 2, 8), ("gcd/2/2", 6, 8), ("gcd/0/0", 0, 8)])
        >>> found["by_task"]["gcd"]["pass_rate"]
        {'none given': 0.0, '2/4': 0.25, '4/4': 0.75}
        >>> [found["by_task"]["gcd"][name] for name in ("all_wrong", "mixed", "passes")]
        [2, 1, True]
    """
    sums: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for name, positive, n in counts:
        task, level, levels = name.split("/")
        quarter = -(-4 * int(level) // max(int(levels), 1))  # rounded up
        for key in (task, "all"):
            sums[key][LEFT[quarter]][0] += positive
            sums[key][LEFT[quarter]][1] += n
    by_task: dict[str, Any] = {}
    for task, found in sorted(sums.items()):
        rates = {name: round(found[name][0] / found[name][1], 3) for name in LEFT if name in found}
        between = [rate for name, rate in rates.items() if name != "none given"]
        by_task[task] = {
            "pass_rate": rates,
            "responses": {name: found[name][1] for name in LEFT if name in found},
            # Written before the first response: before the answer is shown, one in ten is right at least, and twice
            # as many as without a hint; so there is something to fall from.
            "passes": bool(between) and max(between) >= max(0.1, 2 * rates.get("none given", 0.0)),
            **helped(counts, task),
        }
    return {"by_task": by_task, "passes": sum(each["passes"] for task, each in by_task.items() if task != "all") >= 2}


def helped(counts: Sequence[tuple[str, int, int]], task: str) -> dict[str, int]:
    """Count prompts of which all responses without a hint were wrong, and those that a level tells apart."""
    prompts: list[list[tuple[int, int]]] = []
    for name, positive, n in counts:  # a prompt's levels stand together, level 0 first
        kind, level, _ = name.split("/")
        if task in (kind, "all"):
            if level == "0":
                prompts.append([])
            prompts[-1].append((positive, n))
    wrong = [levels for levels in prompts if levels[0][0] == 0]
    mixed = sum(any(0 < positive < n for positive, n in levels) for levels in wrong)
    return {"all_wrong": len(wrong), "mixed": mixed}


def table() -> str:
    """Return pass rates by task and by the share of the levels that was given, responses in brackets."""
    by_task = json.loads((RESULTS / "gate.json").read_text())["by_task"]
    rows = []
    for task in (*HARD, "all"):
        found = by_task[task]
        cells = [f"{found['pass_rate'][left]:.3f} ({found['responses'][left]})" for left in LEFT]
        passes = "" if task == "all" else "yes" if found["passes"] else "no"
        rows.append([task, *cells, f"{found['mixed']} of {found['all_wrong']}", passes])
    return markdown(["task", LEFT[0], "1st quarter", "2nd", "3rd", "4th", "told apart", "passes"], rows)


def main() -> None:
    """Draw what is missing, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=NUM_PROMPTS, help="prompts, a multiple of 4")
    given = parser.parse_args()
    prepare_once(START, warm_up)
    drawn = pd.read_parquet(draw(START, ROOT / "runs" / "hints" / f"gate_{given.prompts}", given.prompts))
    counts = [(row.task, int(row.num_positive), int(row.num_samples)) for row in drawn.itertuples()]
    if [name for name, _, _ in counts] != [row["task"] for row in rows(given.prompts)]:
        sys.exit("error: what was drawn is not in the order of the prompts; remove runs/hints and begin again")
    found = {"start": checksum(START), "num_prompts": given.prompts} | figures(counts)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "gate.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
