"""Training on two hosts: ``python -m research.hosts.training``.

Compares two processes (FSDP2 over gloo, torchrun on both hosts) with one, refuses a run folder that only the first host
sees, and loses each host in turn. Writes ``docs/reliability/hosts_training.json``.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any

from research.benchmarks.report import markdown
from research.hosts.cluster import QUIET, SMALL, TRANSFORMERS, Training, column, differences
from research.hosts.figures import load, quoted, save
from research.hosts.network import Network, command_line, network, wait_for

STEPS = 5
TIMEOUT_MINUTES = 0.5
OPTIONS = (
    "rollout=vllm_process", *TRANSFORMERS, "rollout.host.num_threads=1", "callbacks.checkpoint.every_n_steps=1",
    # Adam divides by the size of a gradient: where that is nothing but rounding it would make a whole step of it.
    "+optimizer.eps=1e-3",
)  # fmt: skip


class Pair:
    """A run of two processes, one on ``a`` and one on ``b``."""

    def __init__(self, hosts: Network, folder: Path, name: str, *overrides: str) -> None:
        self.hosts, self.run_dir = hosts, folder / name
        self.logs = {host: folder / f"{name}-{host}.log" for host in "ab"}
        torchrun = (sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1")
        rendezvous = ("--rdzv_backend=c10d", f"--rdzv_endpoint={hosts['a'].address}:29500", f"--rdzv_id={name}")
        options = (*SMALL, f"run_name={name}", f"run_dir={self.run_dir}", *OPTIONS, "trainer=fsdp", *overrides)
        self.processes = {
            host: hosts[host].start(
                *torchrun, *rendezvous, f"--node_rank={rank}", f"--local_addr={hosts[host].address}", "train.py",
                *options, log=self.logs[host], environment=QUIET,
            )
            for rank, host in enumerate("ab")
        }  # fmt: skip

    def wait(self, seconds: float = 400.0) -> dict[str, int]:
        """Wait for both ends; returns the exit codes."""
        return {host: process.wait(seconds) for host, process in self.processes.items()}

    def printed(self) -> str:
        """What both have printed."""
        return "".join(log.read_text(errors="replace") for log in self.logs.values())

    def end(self) -> None:
        """Kill what is left."""
        for host in "ab":
            self.hosts[host].kill()


def main() -> None:
    """Compare, be refused, lose hosts, print and save."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ada_lightning-runs-") as temporary:
        folder = Path(temporary)
        with network(("a", "b")) as hosts:
            rows = [equal(hosts, folder)]
            refusal = unshared(hosts, folder)
        losses = []
        for lost in "ba":
            with network(("a", "b")) as hosts:
                losses.append(lose(hosts, folder, lost))
    save("training", steps=STEPS, timeout_minutes=TIMEOUT_MINUTES, runs=rows, unshared=refusal, losses=losses)


def equal(hosts: Network, folder: Path) -> dict[str, Any]:
    """Return how far two processes on two hosts are from one."""
    one = Training(hosts["a"], folder, "one", (*OPTIONS, f"num_steps={STEPS}")).finish()
    two = Pair(hosts, folder, "two", f"num_steps={STEPS}")
    codes = two.wait()
    if any(codes.values()):
        raise RuntimeError(f"{codes}: {two.printed()[-4000:]}")
    found = differences(two.run_dir, one)
    pairs = zip(column(two.run_dir, "train/grad_norm"), column(one, "train/grad_norm"), strict=True)
    return {"processes": 2, **found, "grad_norm": max(abs(ours - theirs) / theirs for ours, theirs in pairs)}


def unshared(hosts: Network, folder: Path) -> str:
    """Return what a run says whose folder only ``a`` sees."""
    (folder / "alone").mkdir()
    hosts["b"].hide(folder / "alone")
    run = Pair(hosts, folder / "alone", "run", "num_steps=1", f"run_dir={folder / 'alone/run'}")
    codes = run.wait()
    said = re.search(r"run_dir = .*? is not seen by host .*", run.printed())
    if 0 in codes.values() or said is None:
        raise RuntimeError(f"{codes}: {run.printed()[-4000:]}")
    return said[0].replace(str(folder), "...")


def lose(hosts: Network, folder: Path, lost: str) -> dict[str, Any]:
    """Take a host's network away in the middle of a run; continue with the other one alone."""
    other = "b" if lost == "a" else "a"
    name = f"lost-{lost}"
    run = Pair(hosts, folder, name, "num_steps=1000", f"trainer.strategy.timeout_minutes={TIMEOUT_MINUTES}")
    checkpoint = run.run_dir / "checkpoints/last"
    ended = [process.poll for process in run.processes.values()]
    wait_for(lambda: checkpoint.exists() or any(poll() is not None for poll in ended), 300, "a checkpoint")
    hosts.cut(lost)
    started = time.monotonic()
    program = re.compile(r"train\.py")
    wait_for(lambda: not _programs(hosts, other, program), 60 * TIMEOUT_MINUTES + 60, f"the end on {other}")
    seconds = time.monotonic() - started
    said = re.search(r"host .* not been heard of .*", run.logs[other].read_text(errors="replace"))
    run.end()
    steps = len(column(run.run_dir, "train/loss"))
    hosts.mend(lost)
    alone = Training(hosts[other], folder, name, (*OPTIONS, f"num_steps={steps + 2}", "ckpt=last"))
    alone.finish()
    done = [int(step) for step in column(alone.run_dir, "step")]
    if done != sorted(set(done)):
        raise RuntimeError(f"steps of the continued run: {done}")
    return {
        "lost": lost, "ends_in_s": round(seconds, 1), "said": said[0] if said else "", "steps": steps,
        "continued_to": int(max(done)),
    }  # fmt: skip


def _programs(hosts: Network, name: str, program: re.Pattern[str]) -> list[int]:
    """Training processes of a host; torchrun itself is none."""
    found = []
    for pid in hosts[name].pids():
        line = " ".join(command_line(pid))
        if program.search(line) and "torch.distributed.run" not in line and line.startswith(sys.executable):
            found.append(pid)
    return found


def table() -> str:
    """Return the comparison as Markdown."""
    (row,) = load("training")["runs"]
    cells = [row["responses"], row["differ"], f"{row['weights']:.1g}", f"{row['grad_norm']:.1g}"]
    names = ["responses", "that differ", "largest difference of a weight", "of a gradient's norm, relative"]
    return markdown(names, [cells])


def losses() -> str:
    """Return what the others said of the lost hosts, for the page."""
    rows = load("training")["losses"]
    return quoted({f"{row['lost']} is lost; the other ends in {row['ends_in_s']:.0f} s": row["said"] for row in rows})


if __name__ == "__main__":
    main()
