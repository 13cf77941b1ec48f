"""What ``reproducible=true`` costs: ``python -m research.benchmarks.reproducible_cost``.

One engine, one set of prompts, the same seeds and so the same responses; in turns with verdicts that count as they come
and with verdicts that count at fixed engine steps. Writes ``docs/reliability/reproducible_cost.json``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

from research.benchmarks.report import RELIABILITY, save
from research.drive import collect, composed

VARIANTS: dict[str, dict[str, Any]] = {
    "as they come": {},
    "fixed, after 0 steps": {"reproducible": True, "verdict_delay": 0},
    "fixed, after 4 steps": {"reproducible": True, "verdict_delay": 4},
    "fixed, after 16 steps": {"reproducible": True, "verdict_delay": 16},
}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=16, help="of each rollout")
    parser.add_argument("--repeats", type=int, default=3, help="rollouts of each variant, in turns")
    parser.add_argument("overrides", nargs="*", help="of the configuration")
    arguments = parser.parse_args()
    rows = _measure(arguments.prompts, arguments.repeats, arguments.overrides)
    base = rows[0]["seconds"]
    for row in rows:
        row["ratio"] = row["seconds"] / base
        print(row)
    save("reproducible_cost", folder=RELIABILITY, prompts=arguments.prompts, rows=rows)


def _measure(num_prompts: int, repeats: int, overrides: list[str]) -> list[dict[str, Any]]:
    from hydra.utils import instantiate

    from ada_lightning.config.assembly import assemble, read_data
    from ada_lightning.run.malloc import keep_freed_memory

    cfg = composed("train", ["+experiment=ada_seq_balance", *overrides])
    keep_freed_memory()
    parts = assemble(cfg)
    data = read_data(cfg, parts.model.tokenizer, parts.grader)
    prompts = data.train_prompts[:num_prompts]
    sampler, selection = instantiate(cfg.sampler), instantiate(cfg.selection)
    with tempfile.TemporaryDirectory(prefix="ada_lightning-") as folder:
        parts.open(Path(folder) / "engine.log")
        try:
            engine = parts.service._opened_engine()
            found: dict[str, list[tuple[float, Any]]] = {name: [] for name in VARIANTS}
            for repeat in range(repeats + 1):  # the first round warms up and is not counted
                for name, options in VARIANTS.items():
                    started = time.perf_counter()
                    _, stats = collect(
                        prompts,
                        sampler,
                        engine=engine,
                        grader=parts.grader,
                        selection=selection,
                        schedule=instantiate(cfg.rollout.schedule),
                        settings=parts.service.sampling,
                        decode=parts.service._decode,
                        **options,
                    )
                    if repeat:
                        found[name].append((time.perf_counter() - started, stats))
        finally:
            parts.close()
    return [
        {
            "variant": name,
            "seconds": statistics.median(seconds for seconds, _ in measured),
            "responses": measured[-1][1].num_drawn,
            "tokens": measured[-1][1].generated_tokens,
            "wasted_tokens": [stats.wasted_tokens for _, stats in measured],
        }
        for name, measured in found.items()
    ]


if __name__ == "__main__":
    main()
