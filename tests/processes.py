"""Whether processes are there."""

import time


def is_gone(pid):
    """Whether a process ended; one that nobody has waited for yet has."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def assert_gone(pid, patience_s=30.0):
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and not is_gone(pid):
        time.sleep(0.02)
    assert is_gone(pid), f"process {pid} is alive"
