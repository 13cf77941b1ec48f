"""Do time and memory grow as they should? ``python -m research.benchmarks.growth``.

Seconds per token of the default rollout and of the update, on the default model and the real engine, while the number
of prompts goes from 16 to 512 and the length of responses from 8 to 128 tokens: linear in tokens means that seconds per
token stay level. Lengths and verdicts are scripted, so that the work is known. Peak memory of the process is noted
after each size, small sizes first: it must stay level too. Writes ``docs/performance/growth.json`` and ``growth.png``.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import time
from collections.abc import Sequence
from typing import Any

from research import plotting

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

from research.benchmarks.report import FOLDER, save
from research.benchmarks.update import make_policy, random_groups
from research.benchmarks.update import update as make_update
from research.benchmarks.workload import DefaultModel, ScriptedLengths, ScriptedVerdicts, default_model, vllm_engine
from research.drive import collect, pack

PROMPTS, LENGTHS = (16, 64, 256, 512), (8, 32, 128)
BASE_PROMPTS, BASE_LENGTH, N_MAX = 32, 8, 32
MAX_MODEL_TOKENS = 640


def main() -> None:
    """Measure, print, draw and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3, help="timed runs of each size")
    arguments = parser.parse_args()
    model = default_model()
    rows: list[dict[str, Any]] = []
    sizes = [("prompts", number, number, BASE_LENGTH) for number in PROMPTS]
    sizes += [("tokens per response", length, BASE_PROMPTS, length) for length in LENGTHS]
    with vllm_engine(model, eos_token_ids=(), max_model_tokens=MAX_MODEL_TOKENS) as engine:
        rollout(model, engine, 8, BASE_LENGTH)  # builds kernels
        for axis, value, num_prompts, length in sizes:
            runs = [rollout(model, engine, num_prompts, length) for _ in range(arguments.repetitions)]
            rows.append(row("rollout", axis, value, runs))
    parts = make_policy(argparse.Namespace(attention="sdpa", model="smollm2", device="cpu"))
    update(*parts, 8, BASE_LENGTH)
    for axis, value, num_prompts, length in sizes:
        runs = [update(*parts, num_prompts, length) for _ in range(arguments.repetitions)]
        rows.append(row("update", axis, value, runs))
    save("growth", rows=rows)
    draw(rows)


def row(phase: str, axis: str, value: int, runs: Sequence[tuple[float, int]]) -> dict[str, Any]:
    """Median seconds per token of one size, printed."""
    tokens = runs[0][1]
    found = {
        "phase": phase,
        "axis": axis,
        "value": value,
        "tokens": tokens,
        "seconds": [round(seconds, 3) for seconds, _ in runs],
        "ms_per_token": 1000 * statistics.median(seconds for seconds, _ in runs) / tokens,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    print(
        f"{phase:<8}{value:>5} {axis:<20}{tokens:>8} tokens{found['ms_per_token']:>8.2f} ms/token"
        f"{found['peak_gib']:>7.1f} GiB",
        flush=True,
    )
    return found


def rollout(model: DefaultModel, engine: Any, num_prompts: int, median_length: int) -> tuple[float, int]:
    """Seconds and committed tokens of one rollout: lognormal lengths of sigma 1/2, pass rates spread evenly."""
    from ada_lightning.core.schedule import Continuous
    from ada_lightning.methods.sampling import BalanceSampler
    from ada_lightning.methods.selection import BalancedSelection

    generator = random.Random(0)
    lengths, verdicts = {}, {}
    for slot in range(num_prompts):
        for index in range(2 * N_MAX):
            drawn = round(median_length * generator.lognormvariate(0.0, 0.5))
            lengths[str(slot), index] = max(1, min(4 * median_length, drawn))
            verdicts[str(slot), index] = generator.random() < (slot + 0.5) / num_prompts
    assert engine._engine.reset_prefix_cache()
    _, stats = collect(
        model.prompts(num_prompts),
        BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=N_MAX, group_size=4),
        engine=ScriptedLengths(engine, lengths),
        grader=ScriptedVerdicts(verdicts),
        selection=BalancedSelection(group_size=4),
        schedule=Continuous(fill_to=engine.max_num_seqs),
        settings=4 * median_length,
        decode=model.decode,
    )
    return stats.seconds, stats.generated_tokens


def update(policy: Any, optimizer: Any, num_prompts: int, length: int) -> tuple[float, int]:
    """Seconds and computed tokens of one update: groups of 4 responses, all of this length and all with a signal."""
    batch = pack(random_groups(lambda generator: length, num_prompts), share_prompts=True)
    started = time.monotonic()
    num_tokens = make_update(policy, batch, optimizer)
    return time.monotonic() - started, num_tokens


def draw(rows: Sequence[dict[str, Any]]) -> None:
    """Two panels: time per token over each axis, and peak memory."""
    axes = list(dict.fromkeys(row["axis"] for row in rows))
    figure, panels = plotting.panels(2, len(axes), figsize=(9, 6), sharey="row")
    for column, axis in enumerate(axes):
        for phase in ("rollout", "update"):
            points = [row for row in rows if row["axis"] == axis and row["phase"] == phase]
            values = [row["value"] for row in points]
            panels[0, column].plot(values, [row["ms_per_token"] for row in points], marker="o", label=phase)
            panels[1, column].plot(values, [row["peak_gib"] for row in points], marker="o", label=phase)
        for panel in panels[:, column]:
            panel.set_xscale("log", base=2)
            panel.set_ylim(bottom=0)
            panel.set_xlabel(axis)
    panels[0, 0].set_ylabel("milliseconds per token")
    panels[1, 0].set_ylabel("peak memory, GiB")
    panels[0, 0].legend()
    plotting.save(figure, FOLDER / "growth.png", 110)


if __name__ == "__main__":
    main()
