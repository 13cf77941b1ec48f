"""Three hosts on one machine: ``python -m research.hosts.network`` opens a shell on the first of them.

Each host is a set of Linux namespaces: network, processes, mounts, name. It has an address of its own, its own
``/tmp/ray`` and its own ``/dev/shm``. All hang on one bridge, which lies in a namespace too, so that nothing listens on
the machine's own interfaces. Everything ends with the process that made it, however that ends. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SUBNET = "10.77.0"
_TOOLS = ("ip", "unshare", "nsenter", "setpriv", "mount")


def why_not(*others: str) -> str:
    """Say why this machine can have no such hosts, or lacks other tools; empty where it can."""
    if os.geteuid() != 0:
        return "hosts of their own are network namespaces, which only root makes"
    if missing := [tool for tool in (*_TOOLS, *others) if shutil.which(tool) is None]:
        return f"hosts of their own need {', '.join(missing)} (packages iproute2, iptables, util-linux)"
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else f"this machine makes no namespaces: {tried.stderr.decode().strip()}"


def command_line(pid: int) -> list[str]:
    """Return a process's words; none where it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").removesuffix("\0").split("\0")
    return []


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@dataclass(frozen=True)
class Namespace:
    """What a process sees of the machine; ``pid`` is the process that keeps it."""

    name: str
    pid: int

    def command(self, arguments: Sequence[str | Path]) -> list[str]:
        """Return what runs ``arguments`` in there, in this process's working directory."""
        enter = ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p"]
        return [*enter, "env", "-C", os.getcwd(), *map(str, arguments)]

    def run(self, *arguments: str | Path) -> str:
        """Run a command to its end and return what it printed.

        Raises:
            RuntimeError: it failed.
        """
        done = subprocess.run(self.command(arguments), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, arguments))} on {self.name}: {done.stderr or done.stdout}")
        return done.stdout

    def start(
        self, *arguments: str | Path, log: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command; what it prints goes to the end of ``log``."""
        variables = {**os.environ, **(environment or {})}
        with log.open("ab") as file:
            return subprocess.Popen(
                self.command(arguments), env=variables, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=ROOT,
                start_new_session=True,
            )  # fmt: skip

    def pids(self) -> list[int]:
        """Processes in there, apart from the one that keeps it, by their numbers outside."""
        own = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(entry / "ns/pid") == own and int(entry.name) != self.pid:
                    found.append(int(entry.name))
        return found

    def kill(self, *containing: str) -> list[int]:
        """Kill its processes, or those whose command line contains one of these; returns their numbers."""
        killed = []
        for pid in self.pids():
            line = " ".join(command_line(pid))
            if not containing or any(text in line for text in containing):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
        return killed


@dataclass(frozen=True)
class Host(Namespace):
    """One host of a :class:`Network`."""

    address: str

    def hide(self, folder: Path) -> None:
        """Have this host see an empty folder there."""
        self.run("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder)

    def drop(self, ratio: float) -> None:
        """Lose this share of the packets that arrive from now on; 0: none."""
        self.run("iptables", "-F", "INPUT")
        if ratio:
            chance = ("-m", "statistic", "--mode", "random", "--probability", str(ratio))
            self.run("iptables", "-A", "INPUT", "-i", "eth0", *chance, "-j", "DROP")


class Network:
    """The hosts, and the bridge between them."""

    def __init__(self, hosts: Mapping[str, Host], bridge: Namespace) -> None:
        self.hosts, self.bridge = dict(hosts), bridge
        self._relays: dict[str, subprocess.Popen[bytes]] = {}

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def cut(self, name: str) -> None:
        """Pull the cable of a host."""
        self.bridge.run("ip", "link", "set", f"to-{name}", "down")

    def mend(self, name: str) -> None:
        """Plug it in again."""
        self.bridge.run("ip", "link", "set", f"to-{name}", "up")

    def delay(self, name: str, seconds: float) -> None:
        """Have every packet to and from a host arrive this much later, by a relay between it and the bridge."""
        host, inner = self.hosts[name], f"relay-{name}"
        python = [sys.executable, "-m", "research.hosts.relay"]
        for place, device in ((host, "eth0"), (self.bridge, f"{inner}-b")):
            if place is self.bridge:
                self.bridge.run("ip", "link", "add", inner, "type", "veth", "peer", "name", device)
                self.bridge.run("ip", "link", "set", device, "master", "bridge", "up")
                self.bridge.run("ip", "link", "set", inner, "up")
            place.run(*python, "whole", device)
        for other in self.hosts.values():
            other.run(*python, "whole", "eth0")
        self.bridge.run("ip", "link", "set", f"to-{name}", "nomaster")
        arguments = (*python, "delay", f"to-{name}", inner, str(seconds))
        self._relays[name] = self.bridge.start(*arguments, log=Path(os.devnull))

    def end_delay(self, name: str) -> None:
        """Connect the host to the bridge without a relay, where it has one."""
        if name not in self._relays:
            return
        self.bridge.run("ip", "link", "del", f"relay-{name}")  # which ends the relay
        self._relays.pop(name).wait(10)
        self.bridge.run("ip", "link", "set", f"to-{name}", "master", "bridge")


@contextlib.contextmanager
def network(names: Sequence[str] = ("a", "b", "c")) -> Iterator[Network]:
    """Make hosts with these names, and remove them with all that runs on them.

    Raises:
        RuntimeError: this machine cannot (:func:`why_not`).
    """
    if reason := why_not():
        raise RuntimeError(reason)
    with contextlib.ExitStack() as made:
        folder = Path(made.enter_context(tempfile.TemporaryDirectory(prefix="ada_lightning-hosts-")))
        addresses = {name: f"{_SUBNET}.{number}" for number, name in enumerate(names, start=1)}
        (folder / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in addresses.items())
        )
        bridge = Namespace("bridge", made.enter_context(_kept("bridge", folder / "hosts")))
        bridge.run("ip", "link", "add", "bridge", "type", "bridge")
        bridge.run("ip", "link", "set", "bridge", "up")
        hosts = {}
        for name, address in addresses.items():
            host = Host(name, made.enter_context(_kept(name, folder / "hosts")), address)
            peer = ("type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
            # Named from outside the bridge's processes, which see no others.
            subprocess.run(
                ["nsenter", "-t", str(bridge.pid), "-n", "ip", "link", "add", f"to-{name}", *peer], check=True
            )
            bridge.run("ip", "link", "set", f"to-{name}", "master", "bridge", "up")
            host.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
            host.run("ip", "link", "set", "eth0", "up")
            host.run("ip", "route", "add", "default", "via", f"{_SUBNET}.254")  # who asks for its own address has one
            hosts[name] = host
        yield Network(hosts, bridge)


@contextlib.contextmanager
def _kept(name: str, names_file: Path) -> Iterator[int]:
    """Keep a set of namespaces; gives the process that is the first in there, whose end ends all others."""
    Path("/tmp/ray").mkdir(exist_ok=True)  # a place to mount on
    script = (
        f"hostname {name} && mount --bind {names_file} /etc/hosts && mount -t tmpfs tmpfs /tmp/ray && "
        "mount -t tmpfs -o size=8g tmpfs /dev/shm && ip link set lo up && echo ready && exec sleep infinity"
    )
    options = ["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
    keeper = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "unshare", *options, "sh", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        if keeper.stdout.readline() != "ready\n":
            raise RuntimeError(f"host {name} could not be made: {keeper.stderr.read()}")
        yield int(Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text().split()[0])
    finally:
        keeper.kill()
        keeper.wait()


def main() -> None:
    """Run a command, or a shell, on the first host."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="to run on the first host; a shell unless given")
    arguments = parser.parse_args()
    with network() as hosts:
        for host in hosts.hosts.values():
            print(f"{host.name}: {host.address}, nsenter -t {host.pid} -m -u -i -n -p", flush=True)
        command = hosts["a"].command(arguments.command or [os.environ.get("SHELL", "/bin/sh")])
        sys.exit(subprocess.run(command, check=False).returncode)


def wait_for(is_reached: Callable[[], object], seconds: float, what: str) -> float:
    """Wait until a function without arguments returns something true; returns how long that took, s.

    Raises:
        TimeoutError: it did not.
    """
    started = time.monotonic()
    while not is_reached():
        if time.monotonic() - started > seconds:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.1)
    return time.monotonic() - started


if __name__ == "__main__":
    main()
