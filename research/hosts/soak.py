"""A fault of a host or its network each minute, for an hour: ``python -m research.hosts.soak``.

A run with engines of transformers on ``b`` and ``c`` goes on whatever happens. At the end it proves from its files that
every response of every step is there once, and that none came from older weights. Writes
``docs/reliability/hosts_soak.json``.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from research.benchmarks.faults.sessions import MemoryWatch
from research.benchmarks.report import markdown
from research.benchmarks.soak import prove
from research.hosts import memory
from research.hosts.cluster import TRANSFORMERS, Cluster, cluster, column
from research.hosts.figures import load, save
from research.hosts.network import command_line, wait_for

INTERVAL_S, LONGEST_S = 60.0, 25.0
ENOUGH = 1_000_000
OPTIONS = (
    "callbacks.checkpoint.every_n_steps=20", "rollout.sampling.max_new_tokens=32", "rollout.host.call_timeout_s=45",
    # A policy that has learned the task changes no more, and older weights would not show.
    "optimizer.lr=1e-5",
)  # fmt: skip
LARGEST_GAP = 1e-4
"""Of engine and trainer in float32, nat: a hundred times what rounding makes. One older version shows much more."""
_REJOIN_WAIT_S = 10.0


def main() -> None:
    """Break, prove, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    parser.add_argument("--folder", type=Path, help="for the run and what it prints; a temporary one unless given")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    with cluster(folder=arguments.folder) as ray:
        ray.start("b", "c")
        run = ray.train("soak", *OPTIONS, f"num_steps={ENOUGH}", engine=TRANSFORMERS)
        wait_for(lambda: _steps(run.run_dir) > 1 or run.process.poll() is not None, 300, "a first step")
        pid = next(pid for pid in ray.hosts["a"].pids() if _is_trainer(pid))
        watch, done, started = MemoryWatch(pid), list[str](), time.monotonic()
        while time.monotonic() - started < 60 * arguments.minutes and run.process.poll() is None:
            began = time.monotonic()
            kind, host = generator.choice(list(KINDS)), generator.choice("bc")
            print(f"{began - started:.0f} s, step {_steps(run.run_dir)}: {kind} of {host}", flush=True)
            KINDS[kind](ray, host, generator.uniform(3, LONGEST_S))
            done.append(kind)
            _rejoin(ray)
            while time.monotonic() - began < INTERVAL_S and run.process.poll() is None:
                time.sleep(0.2)
        minutes = (time.monotonic() - started) / 60
        quarters = watch.stop()
        if run.process.poll() is not None:
            raise RuntimeError(f"the run ended with {run.process.poll()}: {run.printed()[-4000:]}")
        os.kill(pid, signal.SIGTERM)
        run.wait(120)
        steps = _version(run.run_dir) + 1
        ray.train("soak", *OPTIONS, f"num_steps={steps}", "ckpt=last", engine=TRANSFORMERS).finish()
        proof = prove(run.run_dir, steps, with_mlflow=False)
        gap = max(column(run.run_dir, "sync/logprob_gap_max"))
        if gap > LARGEST_GAP:
            raise RuntimeError(f"engine and trainer differ by {gap} nat: a response came from other weights")
        save(
            "soak", minutes=round(minutes, 1), faults=dict(sorted(Counter(done).items())), steps=steps,
            responses=proof["responses_drawn"], lost=proof["lost"], twice=proof["twice"], logprob_gap=gap,
            memory_mb=[round(each) for each in quarters],
        )  # fmt: skip


def _kill_ray(ray: Cluster, host: str, seconds: float) -> None:
    ray.hosts[host].kill()
    time.sleep(min(seconds, _REJOIN_WAIT_S))


def _kill_engine(ray: Cluster, host: str, seconds: float) -> None:
    ray.hosts[host].kill("_EngineActor")


def _cut(ray: Cluster, host: str, seconds: float) -> None:
    ray.hosts.cut(host)
    time.sleep(seconds)
    ray.hosts.mend(host)


def _drop(ray: Cluster, host: str, seconds: float) -> None:
    ray.hosts[host].drop(0.01)
    time.sleep(seconds)
    ray.hosts[host].drop(0)


def _delay(ray: Cluster, host: str, seconds: float) -> None:
    ray.hosts.delay(host, 0.1)
    time.sleep(seconds)
    ray.hosts.end_delay(host)


def _exhaust(ray: Cluster, host: str, seconds: float) -> None:
    memory.run_out_of_memory(ray.hosts[host])


KINDS = {
    "Ray is killed": _kill_ray,
    "the engine is killed": _kill_engine,
    "the cable is out": _cut,
    "1 % of packets are lost": _drop,
    "packets take 100 ms": _delay,
    "no memory is left": _exhaust,
}


def _rejoin(ray: Cluster) -> None:
    """Start Ray where it has ended, as a service manager does."""
    if not (alive := ray.nodes()):
        return  # no answer in time, which says nothing of the hosts
    for name, host in ray.hosts.hosts.items():
        if host.address not in alive:
            host.kill()
            ray.join(name)


def _is_trainer(pid: int) -> bool:
    words = command_line(pid)
    return "train.py" in words and words[0] != "env"


def _steps(run_dir: Path) -> int:
    return len(column(run_dir, "train/loss")) if (run_dir / "metrics.csv").exists() else 0


def _version(run_dir: Path) -> int:
    return int((run_dir / "checkpoints/last").resolve().name.removeprefix("step_"))


def table() -> str:
    """Return what came of it as Markdown."""
    content = load("soak")
    rows: list[list[Any]] = [
        ["minutes", content["minutes"]],
        ["faults", sum(content["faults"].values())],
        *([f"of these: {kind}", number] for kind, number in content["faults"].items()),
        ["steps", content["steps"]],
        ["responses", content["responses"]],
        ["lost", content["lost"]],
        ["twice", content["twice"]],
        ["engine and trainer at most, nat", f"{content['logprob_gap']:.1g}"],
        ["memory of the trainer, highest in each quarter, MB", ", ".join(map(str, content["memory_mb"]))],
    ]
    return markdown(["", "number"], rows)


if __name__ == "__main__":
    main()
