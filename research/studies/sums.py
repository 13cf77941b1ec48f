"""Problems for the walk through docs/walkthrough.md: ``python -m research.studies.sums``.

Writes ``walk/sums.jsonl`` and ``walk/sums_test.jsonl``, one JSON object with ``prompt`` and ``answer`` a line:
additions and subtractions of two numbers of one or two digits, from reasoning-gym, each asked once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.core.records import Prompt
from ada_lightning.data.reasoning_gym import ReasoningGymSource

TASKS = {"chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}}


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("walk"), help="where the files go")
    parser.add_argument("--num-train", type=int, default=600, help="problems to prepare and train on")
    parser.add_argument("--num-test", type=int, default=100, help="problems to evaluate on")
    arguments = parser.parse_args()
    source = ReasoningGymSource(TASKS, num_train=arguments.num_train, num_heldout=arguments.num_test, seed=0)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write(arguments.folder / "sums.jsonl", source.train_prompts())
    write(arguments.folder / "sums_test.jsonl", source.heldout_prompts())


def write(path: Path, prompts: Sequence[Prompt]) -> None:
    """Write one problem a line."""
    lines = [
        json.dumps({"prompt": prompt.messages[-1]["content"], "answer": str(prompt.reference["answer"])})
        for prompt in prompts
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{path}: {len(lines)} problems")


if __name__ == "__main__":
    main()
