"""A host that runs out of memory: its processes get a control group whose limit is next to nothing."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

from research.hosts.network import Host

_GROUPS = Path("/sys/fs/cgroup/memory")
_LIMIT_BYTES = 32 * 2**20


def why_not() -> str:
    """Say why no such limit can be set here; empty where it can."""
    return "" if (_GROUPS / "memory.limit_in_bytes").exists() else "there is no control group for memory (version 1)"


def run_out_of_memory(host: Host) -> list[int]:
    """Have the kernel kill what has most memory of a host's engines; returns the processes that are gone.

    Only what is allocated from now on counts, so something on the host takes more than the limit. Ray marks its workers
    as the first to go, and the kernel takes the largest of them.
    """
    group = _GROUPS / f"ada_lightning-{host.name}-{host.pid}"
    group.mkdir()
    before = host.pids()
    try:
        (group / "memory.limit_in_bytes").write_text(str(_LIMIT_BYTES))
        engines = [pid for pid in before if _is_engine(pid)]
        for pid in engines:
            (group / "cgroup.procs").write_text(str(pid))
        greedy = host.command([sys.executable, "-c", "import sys; sys.stdin.read(1); held = bytearray(2**26)"])
        process = subprocess.Popen(greedy, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not (new := set(host.pids()) - set(before)) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)  # `env` has become Python
        for pid in new:
            (group / "cgroup.procs").write_text(str(pid))
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"x")
            process.stdin.close()
        process.wait(30)
        return [pid for pid in engines if not Path(f"/proc/{pid}").exists()]
    finally:
        (group / "memory.limit_in_bytes").write_text("-1")
        for left in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (_GROUPS / "cgroup.procs").write_text(left)
        with contextlib.suppress(OSError):
            group.rmdir()


def _is_engine(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"_EngineActor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
