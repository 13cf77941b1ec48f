"""Is a run that was killed the run that it would have been: ``python -m research.benchmarks.exact_resume``.

Trains the random model for a few steps, with the real engine, graders that take a random time, on a CPU and in float32
unless the mode says so: twice without a fault, then with SIGKILL and other faults at moments drawn from a seed, resumed
each time until it is done. Compares every sampled token, the engine's log-probabilities bit by bit, the digest of the
weights after every update, the final weights, ``metrics.csv``, ``prompts.csv`` and the responses. Writes
``docs/reliability/exact_resume.json``.
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from research.benchmarks.faults.inject import Fault, read_done, write_schedule
from research.benchmarks.faults.sessions import SMALL, exit_code, start_session, warm_up
from research.benchmarks.faults.trace import read_trace
from research.benchmarks.report import RELIABILITY, save

KINDS = (
    "kill_in_rollout",
    "kill_after_rollout",
    "kill_in_update",
    "kill_before_checkpoint",
    "kill_after_checkpoint",
    "engine_dies",
    "sigterm",
)
NOT_COMPARED = ("time/", "unix_ms", "rollout/engine_restarts", "grader/cache_hits")
"""Columns that say what a session cost, not what it computed."""
BFLOAT16 = ("trainer.precision=bf16-mixed", "rollout.engine.dtype=bfloat16")
LAGGING = ("loss.anchor=behaviour", "loss.importance_cap=0")
MODES: dict[str, tuple[str, ...]] = {
    "reproducible": ("reproducible=true",),
    "default": (),
    "bfloat16, reproducible": ("reproducible=true", *BFLOAT16),
    "bfloat16, default": BFLOAT16,
    "value network": ("reproducible=true", "+experiment=ada_est_value", "estimator.warmup_steps=1"),
    "two minibatches": ("reproducible=true", "data.num_minibatches=2"),
    "max_staleness 1": ("reproducible=true", "rollout.max_staleness=1", *LAGGING),
    "max_staleness 2": ("reproducible=true", "rollout.max_staleness=2", *LAGGING),
}


def main() -> None:
    """Run, compare, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5, help="rollout steps of each run")
    parser.add_argument("--kills", type=int, default=3, help="faults in the run that is killed")
    parser.add_argument("--seed", type=int, default=0, help="of the faults' moments")
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=list(MODES), help="settings to compare")
    parser.add_argument("overrides", nargs="*", help="of the configuration")
    arguments = parser.parse_args()
    warm_up()
    rows = []
    for mode in arguments.modes:
        with tempfile.TemporaryDirectory(prefix="ada_lightning-") as folder:
            row = _compare_mode(mode, Path(folder), arguments)
        rows.append(row)
        print(row, flush=True)
        save("exact_resume", folder=RELIABILITY, rows=rows)


def _compare_mode(mode: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    options = (*MODES[mode], f"num_steps={arguments.steps}", *arguments.overrides)
    whole, whole_s = _run(folder / "whole", options, [])
    again, _ = _run(folder / "again", options, [])
    generator = random.Random(f"{mode}/{arguments.seed}")
    faults = [
        Fault(key, generator.randrange(arguments.steps), generator.choice(KINDS), generator.randint(1, 8))
        for key in range(arguments.kills)
    ]
    killed, _ = _run(folder / "killed", options, faults)
    return {
        "mode": mode,
        "steps": arguments.steps,
        "faults": [f"{entry['kind']} in step {entry['at_step']}" for entry in read_done(killed)],
        "again": differences(whole, again),
        "killed": differences(whole, killed),
        "seconds": whole_s,
    }


def _run(run_dir: Path, options: Sequence[str], faults: list[Fault]) -> tuple[Path, float]:
    """Train until it is done, resuming as often as it takes."""
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    schedule = run_dir.with_suffix(".faults.json")
    write_schedule(schedule, faults)
    has_experiment = any(option.startswith("+experiment=") for option in options)
    overrides = [
        *(SMALL[1:] if has_experiment else SMALL),
        *options,
        f"run_dir={run_dir}",
        f"run_name={run_dir.name}",
        "logger=csv",
        "reward.reward.path=research.benchmarks.faults.grader.few_letters_later",
        "callbacks.response_log.every_n_steps=1",
        "callbacks.response_log.max_prompts=inf",
        "+callbacks.faults._target_=research.benchmarks.faults.inject.FaultInjector",
        "+callbacks.faults.run_dir=${run_dir}",
        f"+callbacks.faults.schedule={schedule}",
        "ckpt=auto",
    ]
    started = time.monotonic()
    log = run_dir.with_suffix(".log")
    for _ in range(2 * len(faults) + 1):
        if exit_code(start_session(overrides, log)) == 0:
            return run_dir, time.monotonic() - started
    raise RuntimeError(f"the run did not finish; its log ends:\n{log.read_text()[-3000:]}")


def differences(one: Path, other: Path) -> dict[str, Any]:
    """Compare two run folders.

    Returns:
        Counts of what differs, and the largest differences.
    """
    first, second = read_trace(one), read_trace(other)
    rollouts = [key for key in first if key[0] == "rollout"]
    # A kill right after a checkpoint comes before the update's record, and that update is not made again: the final
    # weights tell about it.
    updates = [key for key in first if key[0] == "update" and key in second]
    pairs = [(first[key], second.get(key, {})) for key in rollouts]
    return {
        "missing_rollouts": sum(key not in second for key in rollouts),
        "rollouts": len(rollouts),
        "rollouts_with_other_prompts": sum(a["prompts"] != b.get("prompts") for a, b in pairs),
        "rollouts_with_other_tokens": sum(a["tokens"] != b.get("tokens") for a, b in pairs),
        "rollouts_with_other_logprobs": sum(a["logprobs"] != b.get("logprobs") for a, b in pairs),
        "rollouts_with_other_waste": sum(a["generated_tokens"] != b.get("generated_tokens") for a, b in pairs),
        "logprob_difference": max((_gap(a["logprobs"], b.get("logprobs", [])) for a, b in pairs), default=0.0),
        "updates": len(updates),
        "updates_with_other_weights": sum(first[key]["weights"] != second[key]["weights"] for key in updates),
        "weight_difference": _weight_gap(one, other),
        "metric_cells_that_differ": _cells(one / "metrics.csv", other / "metrics.csv"),
        "prompt_log_is_equal": (one / "prompts.csv").read_bytes() == (other / "prompts.csv").read_bytes(),
        "responses_are_equal": _responses(one).equals(_responses(other)),
    }


def _gap(one: list[list[str]], other: list[list[str]]) -> float:
    """Largest difference of a token's log-probability; infinite where the tokens are others."""
    if [len(row) for row in one] != [len(row) for row in other]:
        return float("inf")
    values = [float.fromhex(value) for row in one for value in row], [float.fromhex(v) for row in other for v in row]
    return max((abs(a - b) for a, b in zip(*values, strict=True)), default=0.0)


def _weight_gap(one: Path, other: Path) -> float:
    from safetensors.torch import load_file

    weights = [load_file(folder / "checkpoints/last/policy/model.safetensors") for folder in (one, other)]
    return max(float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[0])


def _cells(one: Path, other: Path) -> list[str]:
    """Columns and rows in which two metrics files differ, but for what a session cost."""
    tables = []
    for path in (one, other):
        with path.open(newline="") as file:
            tables.append({row["step"]: row for row in csv.DictReader(file)})
    if list(tables[0]) != list(tables[1]):
        return ["rows"]
    found = {
        name
        for step, row in tables[0].items()
        for name, cell in row.items()
        if not name.startswith(NOT_COMPARED) and tables[1][step].get(name) != cell
    }
    return sorted(found)


def _responses(run_dir: Path) -> Any:
    from ada_lightning.callbacks.response_log import read_responses

    return read_responses(run_dir, "train")


if __name__ == "__main__":
    main()
