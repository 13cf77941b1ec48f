"""The rooms of the house: who may import whom, and where heavy libraries stand. Held against every import."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ada_lightning"
ROOMS = (
    "run",
    "core",
    "methods",
    "rewards",
    "parallel",
    "training",
    "data",
    "rollout",
    "analysis",
    "audit",
    "objective",
    "config",
    "adapters",
    "programs",
    "cli",
)
"""From the ground up: a room may import the rooms before it and none behind it. docs/architecture.md draws them."""
PROGRAMS = ("train", "evaluate", "prepare", "report", "export")
HOMES = {
    "vllm": {"rollout/engines"},
    "ray": {"rollout/engines", "adapters/verl"},
    "mlflow": {"callbacks"},
    "wandb": {"callbacks"},
    "trackio": {"callbacks"},
    "lightning": {"training", "data", "parallel", "config", "callbacks", "programs"},
    "hydra": {"config", "run", "adapters", "callbacks", "programs", "cli"},
    "trl": {"adapters/trl"},
    "gem": {"adapters/environments"},
    "textarena": {"adapters/environments"},
    "skyrl_gym": {"adapters/environments"},
    "openenv": {"adapters/environments"},
    "tinker": {"adapters/tinker_loop", "adapters/tinker_cookbook"},
    "tinker_cookbook": {"adapters/tinker_cookbook"},
    "verl": {"adapters/verl"},
    "skyrl": {"adapters/skyrl"},
    "prime_rl": {"adapters/prime_rl"},
}
"""Where a library may be imported, type checks included."""
WITHOUT_TORCH = (
    *sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (PACKAGE / "core").rglob("[!_]*.py")),
    "ada_lightning.methods.advantages",
    "ada_lightning.methods.curriculum",
    "ada_lightning.methods.functional",
    "ada_lightning.methods.objectives",
    "ada_lightning.methods.pass_rates",
    "ada_lightning.methods.sampling",
    "ada_lightning.methods.selection",
    "ada_lightning.methods.refill",
    "ada_lightning.rewards.pool",
    "ada_lightning.rollout.service",
    "ada_lightning.run.run_dir",
    "ada_lightning.analysis.report.page",
    "ada_lightning.analysis.export.folder",
    "ada_lightning.methods.estimators.beta_history",
    "ada_lightning.audit.command",
    "ada_lightning.objective.command",
)
"""All of the core, and what else decides, grades or reports."""


def sources() -> list[Path]:
    programs = [ROOT / f"{name}.py" for name in PROGRAMS]
    return sorted([*PACKAGE.rglob("*.py"), *(ROOT / "callbacks").rglob("*.py"), *programs])


@functools.cache
def imported(file: Path) -> tuple[str, ...]:
    """Modules that a file imports anywhere, inside functions and for type checks too."""
    return tuple(_imported(file))


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # Type checkers find the callbacks at the top of a checkout, and so see their imports of each other.
            assert not node.level or room(file) == "callbacks", f"{file}: relative imports hide the room"
            module = f"ada_lightning.callbacks.{node.module}" if node.level else node.module
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room(file: Path) -> str:
    """The room a file stands in: one of ROOMS, ``callbacks``, or a program's name."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "ada_lightning" else parts[0]


def place(file: Path) -> str:
    """The folder of a file as HOMES writes it."""
    return file.relative_to(PACKAGE if file.is_relative_to(PACKAGE) else ROOT).with_suffix("").as_posix()


def test_every_module_of_the_package_stands_in_a_room():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py"}
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(ROOMS)


@pytest.mark.parametrize("name", ROOMS)
def test_arrows_run_down_only(name):
    above = {*ROOMS[ROOMS.index(name) + 1 :]}
    above |= set() if name in ("programs", "cli") else {"callbacks"}
    outside = {"research", "tests", "callbacks", *PROGRAMS}
    backward = [
        f"{file.relative_to(ROOT)} imports {module}"
        for file in (PACKAGE / name).rglob("*.py")
        for module in imported(file)
        if module.split(".")[0] in outside or (module.startswith("ada_lightning.") and module.split(".")[1] in above)
    ]
    assert backward == []


def test_callbacks_know_neither_programs_nor_the_configuration():
    forbidden = ("ada_lightning.config", "ada_lightning.programs", "ada_lightning.cli", "research", "tests", *PROGRAMS)
    wrong = [
        f"{file.relative_to(ROOT)} imports {module}"
        for file in sources()
        if room(file) == "callbacks"
        for module in imported(file)
        if module.startswith(forbidden)
    ]
    assert wrong == []


@pytest.mark.parametrize("library", HOMES)
def test_a_library_is_imported_where_it_is_at_home(library):
    users = {place(file) for file in sources() if any(name.split(".")[0] == library for name in imported(file))}
    assert users, f"{library} is not imported at all: the table is out of date"
    assert [user for user in users if not any((user + "/").startswith(home + "/") for home in HOMES[library])] == []


def test_a_loop_of_ones_own_needs_no_torch():
    code = (
        "import sys; from ada_lightning.adapters import Core; "
        "Core('ada_seq_balance', prompts=['a', 'b']); Core('ada', prompts=['a', 'b']); "
        "print([name for name in ('torch', 'lightning', 'vllm', 'transformers', 'trl') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_what_decides_and_what_grades_needs_no_torch():
    code = (
        f"import sys, {', '.join(WITHOUT_TORCH)}; "
        "print([name for name in ('torch', 'lightning', 'vllm', 'transformers', 'hydra') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
