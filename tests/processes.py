"""Whether processes are there."""

import time

from research.hosts.network import is_gone


def assert_gone(pid, patience_s=30.0):
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and not is_gone(pid):
        time.sleep(0.02)
    assert is_gone(pid), f"process {pid} is alive"
