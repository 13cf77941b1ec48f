"""Many steps under faults of every kind: ``python -m research.benchmarks.soak``.

Trains the random model with the real engine, reward workers and MLflow, breaks the run by a schedule drawn from a seed
(engine, reward workers, gradients, memory, disk, tracking store, signals, SIGKILL, damaged checkpoints, a second
process), starts it again each time, and then proves from its files that every response of every step is there once.
Writes ``docs/reliability/soak.json``.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ada_lightning.run.stopping import REQUEUE, STALLED
from research.benchmarks.faults.inject import Fault, read_done, write_schedule
from research.benchmarks.faults.sessions import SMALL, MemoryWatch, exit_code, start_session, warm_up
from research.benchmarks.report import RELIABILITY, save

EXPECTED: dict[str, int] = {
    "engine_dies": 0,
    "engine_hangs": STALLED,
    "worker_dies": 0,
    "nan_loss": 0,
    "huge_gradient": 0,
    "gpu_memory": 0,
    "host_memory": 0,
    "tracking_down": 0,
    "sync_mismatch": 1,
    "disk_full": 1,
    "engine_stuck": STALLED,
    "sigterm": REQUEUE,
    "sigusr1": REQUEUE,
    "kill_in_rollout": -9,
    "kill_after_rollout": -9,
    "kill_in_update": -9,
    "kill_before_checkpoint": -9,
    "kill_after_checkpoint": -9,
}
"""With which code each fault ends a session; 0: the run goes on by itself."""
STALL_LIMIT_S = 45
"""Steps of this model take milliseconds; the start of an engine has a limit of its own."""
RARE = ("engine_hangs", "engine_stuck")
"""Each costs minutes of waiting, so there is one."""
IN_UPDATES = ("nan_loss", "huge_gradient", "gpu_memory", "host_memory", "kill_in_update")
"""An update of this model may have one microbatch only, so they come with the first."""


def main() -> None:
    """Run, prove, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="rollout steps")
    parser.add_argument("--faults", type=int, default=54, help="faults of the schedule")
    parser.add_argument("--seed", type=int, default=0, help="of the schedule")
    parser.add_argument("--folder", type=Path, help="where the run goes; a temporary folder unless given")
    arguments = parser.parse_args()
    warm_up()
    with tempfile.TemporaryDirectory(prefix="ada_lightning-") as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        faults = schedule(arguments.steps, arguments.faults, arguments.seed)
        soak = Soak(folder, arguments.steps, faults, arguments.seed)
        soak.run()
        content = {
            "steps": arguments.steps,
            "sessions": soak.sessions,
            "faults": soak.fault_rows(),
            "proof": prove(soak.run_dir, arguments.steps),
            "memory": soak.memory(),
        }
    print(json.dumps(content, indent=1))
    save("soak", folder=RELIABILITY, **content)


def schedule(num_steps: int, num_faults: int, seed: int) -> list[Fault]:
    """Draw faults of every kind, at steps from 1 on, so that there is something to continue from."""
    generator = random.Random(seed)
    common = [kind for kind in EXPECTED if kind not in RARE]
    kinds = [*RARE, *(common[index % len(common)] for index in range(num_faults - len(RARE)))]
    generator.shuffle(kinds)
    steps = sorted(generator.randrange(1, num_steps) for _ in kinds)
    return [
        Fault(key, step, kind, 1 if kind in IN_UPDATES else generator.randint(1, 6))
        for key, (step, kind) in enumerate(zip(steps, kinds, strict=True))
    ]


class Soak:
    """The sessions of one run, and what each came to."""

    def __init__(self, folder: Path, num_steps: int, faults: Sequence[Fault], seed: int) -> None:
        self.run_dir = folder / "run"
        self.log = folder / "run.log"
        self.faults = list(faults)
        self.sessions: list[dict[str, Any]] = []
        self._generator = random.Random(f"between/{seed}")
        self._peaks: list[dict[str, float]] = []
        write_schedule(folder / "schedule.json", self.faults)
        self._overrides = [
            *SMALL,
            f"num_steps={num_steps}",
            f"run_dir={self.run_dir}",
            "run_name=soak",
            "ckpt=auto",
            f"logger.mlflow.tracking_uri=sqlite:///{folder / 'mlflow.db'}",
            # So that a worker dies at its work.
            "reward.reward.path=research.benchmarks.faults.grader.few_letters_later",
            "callbacks.response_log.every_n_steps=1",
            "callbacks.response_log.max_prompts=inf",
            "callbacks.checkpoint.keep_last=3",
            "callbacks.adaptive_sampling.max_logprob_gap=0.01",
            "callbacks.adaptive_sampling.stop_logprob_gap=0.02",
            "policy.update_guard.max_norm_ratio=1000",
            "optimizer.lr=1e-5",  # a policy that has learned the task leaves no update to break
            f"rollout.stall_limit_s={STALL_LIMIT_S}",
            "rollout.max_engine_restarts=3",
            # Pictures cost more than the steps of this model.
            "~callbacks.curves",
            "~callbacks.sampling_plots",
            "~callbacks.sample_page",
            "+callbacks.faults._target_=research.benchmarks.faults.inject.FaultInjector",
            f"+callbacks.faults.run_dir={self.run_dir}",
            f"+callbacks.faults.schedule={folder / 'schedule.json'}",
        ]

    def run(self) -> None:
        """Start sessions until one finishes."""
        while True:
            done = len(read_done(self.run_dir))
            started = time.monotonic()
            between = self._damage_newest() if self._generator.random() < 0.2 else ""
            pid = start_session(self._overrides, self.log)
            watch = MemoryWatch(pid)
            refused = self._refused_second(pid) if len(self.sessions) % 5 == 1 else None
            code = exit_code(pid)
            quarters = watch.stop()
            self._peaks.append(
                {
                    "seconds": round(watch.seconds, 1),
                    "second_quarter_mb": round(quarters[1]),
                    "last_quarter_mb": round(quarters[3]),
                }
            )
            new = read_done(self.run_dir)[done:]
            session = {
                "exit_code": code,
                "seconds": round(time.monotonic() - started, 1),
                "faults": [entry["kind"] for entry in new],
                "before_it": between,
                "second_process_refused": refused,
            }
            self.sessions.append(session)
            print(session, flush=True)
            if code not in {0, *(EXPECTED[entry["kind"]] for entry in new)}:
                raise RuntimeError(f"a session ended with {code}; see {self.log}")
            if code == 0:
                return
            if len(self.sessions) > 2 * len(self.faults) + 5:
                raise RuntimeError(f"{len(self.sessions)} sessions and no end; see {self.log}")

    def fault_rows(self) -> list[dict[str, Any]]:
        """Return how often each kind happened."""
        happened = Counter(entry["kind"] for entry in read_done(self.run_dir))
        missing = Counter(fault.kind for fault in self.faults) - happened
        assert not missing, f"faults that were scheduled and did not happen: {dict(missing)}"
        happened["damaged_checkpoint"] = sum(bool(session["before_it"]) for session in self.sessions)
        happened["second_process"] = sum(session["second_process_refused"] is not None for session in self.sessions)
        return [{"kind": kind, "times": count} for kind, count in sorted(happened.items())]

    def memory(self) -> dict[str, Any]:
        """Return the memory of the longest sessions, early and late in each."""
        longest = sorted(self._peaks, key=lambda peak: peak["seconds"], reverse=True)[:3]
        return {"longest_sessions": longest}

    def _damage_newest(self) -> str:
        """Flip a bit of the newest checkpoint where an older one is there."""
        found = sorted((self.run_dir / "checkpoints").glob("step_??????"))
        if len(found) < 2:
            return ""
        files = sorted(path for path in found[-1].rglob("*") if path.is_file() and path.stat().st_size)
        path = self._generator.choice(files)
        content = bytearray(path.read_bytes())
        content[self._generator.randrange(len(content))] ^= 1 << self._generator.randrange(8)
        path.write_bytes(content)
        return f"a bit of {path.relative_to(self.run_dir)} flipped"

    def _refused_second(self, pid: int) -> bool:
        """Start a second process in the same folder while the first runs; whether it was refused."""
        deadline = time.monotonic() + 300
        while _lock_owner(self.run_dir / ".lock") != pid:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the session takes no lock; see {self.log}")
            time.sleep(0.1)
        log = self.log.with_suffix(".second.log")
        log.unlink(missing_ok=True)
        return exit_code(start_session(self._overrides, log)) == 1 and "another process" in log.read_text()


def prove(run_dir: Path, num_steps: int, *, with_mlflow: bool = True) -> dict[str, Any]:
    """Add up what the files say, each against the others."""
    from ada_lightning.callbacks.prompt_log import read_prompts
    from ada_lightning.callbacks.response_log import read_responses

    with (run_dir / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    steps = [int(row["step"]) for row in rows]
    assert steps == list(range(num_steps + 1)), "metrics.csv: a row for each update and one for the last evaluation"
    trained = [row for row in rows if row["train/loss"]]
    assert len(trained) == num_steps, "metrics.csv: each step's update once"
    prompts, responses = read_prompts(run_dir), read_responses(run_dir, "train")
    assert not prompts.duplicated(["step", "slot"]).any(), "prompts.csv: a prompt twice"
    assert prompts.step.tolist() == sorted(prompts.step), "prompts.csv: steps in their order"
    per_step = prompts.groupby("step")
    assert per_step.size().tolist() == [4] * num_steps, "prompts.csv: a prompt is missing"
    drawn = per_step.num_drawn.sum().tolist()
    assert drawn == [float(row["rollout/num_sampled"]) for row in trained], "prompts.csv and metrics.csv: responses"
    assert not responses.duplicated(["step", "slot", "sample_index"]).any(), "responses: one twice"
    counted = prompts.set_index(["step", "slot"]).num_sampled
    kept = responses.groupby(["step", "slot"]).size().reindex(counted.index, fill_value=0)
    assert (kept == counted).all(), "responses and prompts.csv: one is missing"
    tokens = responses.groupby(["step", "slot"]).num_tokens.sum().reindex(counted.index, fill_value=0)
    assert (tokens == prompts.set_index(["step", "slot"]).tokens).all(), "responses and prompts.csv: tokens"
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["status"] == "finished"
    assert summary["responses"] == sum(drawn), "summary.json: responses"
    assert summary["steps"] == num_steps, "summary.json: steps"
    leftovers = [str(path) for path in run_dir.rglob("*") if ".tmp" in path.name]
    assert not leftovers, f"unfinished files: {leftovers}"
    return {
        "updates": len(trained),
        "prompts": len(prompts),
        "responses_drawn": int(sum(drawn)),
        "responses_counted": len(responses),
        "lost": 0,
        "twice": 0,
        "updates_left_out": int(float(trained[-1]["train/skipped_updates"])),
        "memory_retries": int(float(trained[-1]["train/memory_retries"])),
        "grades_failed": int(prompts.num_failed.sum()),
        "mlflow": _mlflow(run_dir, num_steps) if with_mlflow else None,
    }


def _mlflow(run_dir: Path, num_steps: int) -> dict[str, int]:
    """Compare MLflow's curve with ``metrics.csv``: it appends, so a repeated step has a point for each attempt."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{run_dir.parent / 'mlflow.db'}")
    history = client.get_metric_history((run_dir / "mlflow_run_id").read_text().strip(), "train/loss")
    steps = {point.step for point in history}
    assert steps == set(range(num_steps)), f"MLflow misses {set(range(num_steps)) - steps}"
    return {"steps": len(steps), "points": len(history)}


def _lock_owner(path: Path) -> int:
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["pid"])
    except (OSError, ValueError, KeyError):
        return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
