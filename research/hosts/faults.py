"""What a run survives when a host or its network breaks: ``python -m research.hosts.faults [NAME ...]``.

Each name fills its row of the table: a run with engines on ``b`` and ``c`` is broken at one moment and compared with a
run that nothing broke. Writes ``docs/reliability/hosts_faults.json``; rows of other names stay.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.benchmarks.report import markdown
from research.hosts.cluster import Cluster, cluster, column, differences
from research.hosts.figures import load, quoted, save
from research.hosts.memory import run_out_of_memory
from research.hosts.moments import SERVED
from research.hosts.network import wait_for, why_not

STEPS, AT = 14, 2
OPTIONS = (
    f"num_steps={STEPS}", "rollout.sampling.max_new_tokens=64", "rollout.engine.max_num_seqs=8",
    "callbacks.checkpoint.every_n_steps=1",
)  # fmt: skip
Act = Callable[[Cluster], None]


@dataclass(frozen=True)
class Fault:
    """One row."""

    what: str
    moment: str
    """As :class:`~research.hosts.moments.Moments` has it; empty: from before the start to the end of the run."""
    act: Act
    later: Act = lambda _: None
    """What happens some seconds after, in a thread of its own."""
    host: str = "c"
    busy: str = ""
    """The host that has to be at work for the moment to come, if it is another."""
    ends_the_run: bool = False
    """A run that is started again goes on."""


def main() -> None:
    """Fill rows, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*FAULTS, []], help="faults; all unless given")
    parser.add_argument("--folder", type=Path, help="for runs and what they print; a temporary one unless given")
    arguments = parser.parse_args()
    if reason := why_not("iptables"):
        sys.exit(reason)
    with cluster(folder=arguments.folder) as ray:
        ray.start("b", "c")
        wanted = ray.folder / "undisturbed"
        if not (wanted / "summary.json").exists():  # of an earlier command in the same folder
            ray.train("undisturbed", *OPTIONS).finish()
        for name in arguments.names or FAULTS:
            row = {"name": name, **fill(ray, name, FAULTS[name], wanted)}
            print(json.dumps(row), flush=True)
            _save(row)


def _save(row: dict[str, Any]) -> None:
    """Replace one row: each takes minutes."""
    try:
        rows = {each["name"]: each for each in load("faults")["rows"]}
    except FileNotFoundError:
        rows = {}
    rows[row["name"]] = row
    save("faults", steps=STEPS, rows=[rows[name] for name in FAULTS if name in rows])


def fill(
    ray: Cluster, name: str, fault: Fault, wanted: Path, options: Sequence[str] = OPTIONS, **how: Any
) -> dict[str, Any]:
    """Break a run with these options, those of ``wanted``, and say what became of it."""
    _whole(ray)
    folder = ray.folder / f"moments-{name}"
    folder.mkdir()
    moments = (
        "+callbacks.moments._target_=research.hosts.moments.Moments", f"+callbacks.moments.folder={folder}",
        f"+callbacks.moments.host={fault.busy or fault.host}", f"+callbacks.moments.wanted=[{fault.moment}]",
        "+callbacks.moments.num_hosts=2",
    )  # fmt: skip
    if not fault.moment:
        fault.act(ray)
    run = ray.train(name, *options, *moments, **how)
    broken_s = 0.0
    if fault.moment:
        wait_for(lambda: (folder / fault.moment).exists() or run.process.poll() is not None, 300, fault.moment)
        if not (folder / fault.moment).exists():
            raise RuntimeError(f"{name}: the run ended before {fault.moment}: {run.printed()[-4000:]}")
        fault.act(ray)
        broken_s = time.time()
        (folder / f"{fault.moment}.go").touch()
    later = threading.Thread(target=fault.later, args=(ray,))
    later.start()
    code = run.wait(900)
    ended_s = time.time() - broken_s
    later.join()
    if not fault.moment:
        _whole(ray)
    row: dict[str, Any] = {"what": fault.what, "ended_by_itself": code == 0}
    if (code != 0) != fault.ends_the_run:
        raise RuntimeError(f"{name} ended with {code}: {run.printed()[-4000:]}")
    if code:
        row["seconds"] = round(ended_s, 1)
        _whole(ray)
        again = ray.train(name, *options, "ckpt=auto", **how)
        again.finish()
    else:
        row["seconds"] = round(max(_seconds(run.run_dir)) if fault.moment else max(_seconds(run.run_dir)[1:]), 1)
    row["usual_seconds"] = round(max(_seconds(wanted)[1:]), 1)
    found = differences(run.run_dir, wanted)
    row |= {"responses": found["responses"], "lost": found["missing"], "twice": found["twice"]}
    row |= {"old_weights": found["differ"], "logprob_gap": found["logprob_gap"], "weights": found["weights"]}
    served = [json.loads(line) for line in (folder / SERVED).read_text().splitlines()]
    row["serves_again_after"] = _back_after(served, fault.host)
    address = re.escape(ray.hosts[fault.host].address)
    lines = [line for line in run.printed().splitlines() if re.search(address, line) and "warning" in line]
    lines = lines or [line for line in run.printed().splitlines() if re.search(address, line)]
    row["line"] = (lines or [""])[0].replace(str(ray.folder), "...")[:400]
    return row


def _whole(ray: Cluster) -> None:
    """Have all hosts connected and in Ray again."""
    for name, host in ray.hosts.hosts.items():
        ray.hosts.mend(name)
        ray.hosts.end_delay(name)
        host.drop(0)
    if len(ray.nodes()) == len(ray.hosts.hosts):
        return
    for host in ray.hosts.hosts.values():
        host.kill()
        wait_for(lambda host=host: not host.pids(), 30, f"the end of all processes on {host.name}")
    ray.start("b", "c")


def _seconds(run_dir: Path) -> list[float]:
    """Of each step's weight sync and rollout."""
    syncs, rollouts = column(run_dir, "time/sync_s"), column(run_dir, "time/rollout_s")
    return [sync + rollout for sync, rollout in zip(syncs, rollouts, strict=True)]


def _back_after(served: list[dict[str, Any]], host: str) -> float | None:
    """Seconds from the first rollout without the host to the first one that it serves again; None: never."""
    is_there = [any(each.startswith(f"{host} ") for each in row["hosts"]) for row in served]
    if all(is_there):
        return 0.0
    gone = is_there.index(False)
    if True not in is_there[gone:]:
        return None
    return float(round(served[gone + is_there[gone:].index(True)]["at"] - served[gone]["at"], 1))


def _after(seconds: float, act: Act) -> Act:
    def later(ray: Cluster) -> None:
        time.sleep(seconds)
        act(ray)

    return later


def _kill(name: str) -> Act:
    return lambda ray: (ray.hosts[name].kill(), None)[1]


def _join_again(name: str) -> Act:
    def join(ray: Cluster) -> None:
        ray.hosts[name].kill()
        ray.join(name)

    return join


def _cut(ray: Cluster) -> None:
    ray.hosts.cut("c")


def _mend(ray: Cluster) -> None:
    """Plug the cable in, and start Ray where it ended meanwhile, as a service manager does."""
    ray.hosts.mend("c")
    try:
        wait_for(lambda: ray.hosts["c"].address in ray.nodes(), 20, "c in Ray")
    except TimeoutError:
        _join_again("c")(ray)


def _drop(ray: Cluster) -> None:
    for host in ray.hosts.hosts.values():
        host.drop(0.01)


def _kill_head(ray: Cluster) -> None:
    ray.hosts["a"].kill("gcs_server", "raylet", "ray.scripts.scripts")


FAULTS = {
    "ray_killed": Fault(
        "Ray on c is killed in a rollout, and started again 10 s later",
        f"rollout-{AT}", _kill("c"), _after(10, _join_again("c")),
    ),
    "cut_in_rollout": Fault("c's cable is out for 20 s in a rollout", f"rollout-{AT}", _cut, _after(20, _mend)),
    "cut_in_sync": Fault("c's cable is out for 20 s in a weight sync", f"sync-{AT}", _cut, _after(20, _mend)),
    "loss": Fault("1 % of all packets are lost, all the time", "", _drop),
    "delay": Fault(
        "packets to and from c take 100 ms, all the time", "",
        lambda ray: ray.hosts.delay("c", 0.1), host="c",
    ),
    "out_of_memory": Fault(
        "b is out of memory in a rollout", f"rollout-{AT}", lambda ray: run_out_of_memory(ray.hosts["b"]), host="b"
    ),
    "head_killed": Fault(
        "Ray on a, the head, is killed in a rollout", f"rollout-{AT}", _kill_head, host="a", busy="c", ends_the_run=True
    ),
}  # fmt: skip


def table() -> str:
    """Return the rows as Markdown."""
    return markdown(
        ["what breaks", "the step", "usually, s", "lost", "twice", "old weights", "it serves again after"],
        [
            [
                row["what"],
                f"ends in {row['seconds']} s" if row["ended_by_itself"] else f"the run ends in {row['seconds']} s",
                row["usual_seconds"], row["lost"], row["twice"], row["old_weights"],
                "-" if row["serves_again_after"] is None else f"{row['serves_again_after']} s",
            ]
            for row in load("faults")["rows"]
        ],
    )  # fmt: skip


def lines() -> str:
    """Return the lines that name a host, for the page."""
    return quoted({row["what"]: row["line"] or "(nothing)" for row in load("faults")["rows"]})


if __name__ == "__main__":
    sys.exit(main())
