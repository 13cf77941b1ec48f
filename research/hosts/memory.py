"""A host that runs out of memory: its processes get a control group whose limit is next to nothing."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from research.hosts.network import Host, command_line, is_gone, wait_for

_GROUPS = Path("/sys/fs/cgroup/memory")
_LIMIT_BYTES = 32 * 2**20


def run_out_of_memory(host: Host) -> None:
    """Have the kernel kill what has most memory of a host's engines.

    Only what is allocated from now on counts, so something on the host takes more than the limit. Ray marks its workers
    as the first to go, and the kernel takes the largest of them.

    Raises:
        TimeoutError: there is no engine, what was to take the memory did not start, or no engine is gone afterwards.
    """
    # One that has just died is being replaced.
    wait_for(lambda: _engines(host), 60, f"an engine on {host.name}")
    group = _GROUPS / f"ada_lightning-{host.name}-{host.pid}"
    group.mkdir(exist_ok=True)  # the kernel keeps one while a process in it is ending
    before = host.pids()
    try:
        (group / "memory.limit_in_bytes").write_text(str(_LIMIT_BYTES))
        engines = _engines(host)
        for pid in engines:
            (group / "cgroup.procs").write_text(str(pid))
        greedy = host.command([sys.executable, "-c", "import sys; sys.stdin.read(1); held = bytearray(2**26)"])
        process = subprocess.Popen(greedy, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def started() -> list[int]:
            return [pid for pid in set(host.pids()) - set(before) if "bytearray" in " ".join(command_line(pid))]

        wait_for(started, 30, "what takes the memory")
        for pid in started():
            (group / "cgroup.procs").write_text(str(pid))
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"x")
            process.stdin.close()
        process.wait(30)
        wait_for(  # one that was killed is there until its raylet has noticed
            lambda: any(map(is_gone, engines)),
            30,
            f"an engine on {host.name} that runs out of memory; there were {len(engines)}",
        )
    finally:
        (group / "memory.limit_in_bytes").write_text("-1")
        for left in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (_GROUPS / "cgroup.procs").write_text(left)
        with contextlib.suppress(OSError):
            group.rmdir()


def _engines(host: Host) -> list[int]:
    return [pid for pid in host.pids() if "_EngineActor" in " ".join(command_line(pid))]
