"""What other processes on the machine cost a rollout and an update: ``python -m research.benchmarks.busy_machine``.

vLLM generates 384 tokens of the default model, then the model is updated with eight packed groups, in a process for
each way that OpenMP's threads wait, alone and beside four processes that compute without end. Two threads that spin
while they wait take turns on a busy core with the one they wait for; threads that sleep leave it. Writes
``docs/performance/busy_machine.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ada_lightning.run.machine import SPIN_COUNT
from research.benchmarks.report import save

CORES = str(os.cpu_count() or 1)
WAYS: Mapping[str, Mapping[str, str]] = {
    "threads spin (OpenMP's default)": {"OMP_NUM_THREADS": CORES},
    "threads spin briefly (this project's default)": {"OMP_NUM_THREADS": CORES, "GOMP_SPINCOUNT": SPIN_COUNT},
    "threads sleep": {"OMP_NUM_THREADS": CORES, "OMP_WAIT_POLICY": "passive"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
NUM_PROMPTS, NUM_TOKENS, NUM_GROUPS = 32, 12, 8


def main() -> None:
    """Measure every way alone and beside others, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=2, help="timed, after one that builds kernels")
    parser.add_argument("--others", type=int, default=4, help="busy processes beside it")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.repetitions)))
        return
    rows = []
    for others in (0, arguments.others):
        for way, settings in WAYS.items():
            with busy(others):
                found = _in_child(settings, arguments.repetitions)
            rows.append({"way": way, "others": others, **found})
            print(rows[-1], flush=True)
    save("busy_machine", rows=rows)


@contextmanager
def busy(number: int) -> Iterator[None]:
    """Have so many processes compute without end."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(repetitions: int) -> dict[str, float]:
    """Return the median seconds of generation and update in this process."""
    from research.benchmarks.rollout import raw_batch
    from research.benchmarks.update import LENGTHS, make_policy, pack, random_groups, update
    from research.benchmarks.workload import default_model, vllm_engine

    model = default_model()
    with vllm_engine(model) as engine:
        batch = [(prompt.prompt_ids, NUM_TOKENS) for prompt in model.prompts(NUM_PROMPTS)]
        generation = [raw_batch(engine, batch)[0] for _ in range(repetitions + 1)]
    policy, optimizer = make_policy("smollm2")
    packed = pack(random_groups(LENGTHS["default"], NUM_GROUPS), share_prompts=True)
    updates = []
    for _ in range(repetitions + 1):
        started = time.monotonic()
        update(policy, packed, optimizer)
        updates.append(time.monotonic() - started)
    return {
        "generation_s": round(statistics.median(generation[1:]), 2),
        "update_s": round(statistics.median(updates[1:]), 2),
    }


def _in_child(settings: Mapping[str, str], repetitions: int) -> dict[str, float]:
    variables = {**os.environ, "OMP_WAIT_POLICY": "", "GOMP_SPINCOUNT": "", **settings}
    command = [sys.executable, "-m", "research.benchmarks.busy_machine", "--child", "--repetitions", str(repetitions)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={k: v for k, v in variables.items() if v}
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
