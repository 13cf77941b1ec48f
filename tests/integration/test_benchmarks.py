"""Every command of research/ that a page names starts, and does its smallest work: what it calls is still there."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.integration.conftest import ROOT

pytestmark = pytest.mark.vllm

SMALLEST = {
    "benchmarks.cluster_sim": ["--only-validate"],
    "benchmarks.curriculum": ["--prompts", 8, "--per-step", 2, "--epochs", 2],
    "benchmarks.estimator_bias": [],
    "benchmarks.giving_up": ["--prompts", 4, "--visits", 1],
    "benchmarks.memory_plan": [],
    "benchmarks.one_file": ["--draw"],
    "benchmarks.startup": [],
    "benchmarks.update": ["--model", "tiny", "--repetitions", 1, "--no-memory", "--variants", "ours"],
    "pictures": [],
    "studies.auto_simulation": ["--report-only"],
    "studies.calculator": ["--report-only"],
    "studies.coverage": ["--studies", 2],
    "studies.does_it_pay": [],
    "studies.field.auto": ["--report-only"],
    "studies.field.compare": ["--report-only"],
    "studies.field.dropping": ["--report-only"],
    "studies.field.fresh": ["--report-only"],
    "studies.field.setting": [],
    "studies.field.tune": [],
    "studies.smollm2.compare": ["--report-only"],
    "studies.smollm2.tune": [],
    "studies.sums": ["--num-train", 4, "--num-test", 2],
    "studies.when_to_use": [],
}
START_ONLY = {
    "audit.coverage",
    "audit.logs",
    "benchmarks.age_limits",
    "benchmarks.allocators",
    "benchmarks.busy_machine",
    "benchmarks.drafts",
    "benchmarks.engine_pool",
    "benchmarks.engines",
    "benchmarks.environment_throughput",
    "benchmarks.exact_resume",
    "benchmarks.first_figure",
    "benchmarks.gpu_update",
    "benchmarks.grading",
    "benchmarks.hostile_environments",
    "benchmarks.million",
    "benchmarks.overhead",
    "benchmarks.reward_attack",
    "benchmarks.rollout",
    "benchmarks.soak",
    "benchmarks.step_overlap",
    "benchmarks.step_vs_trl",
    "benchmarks.tables",
    "benchmarks.trl_cgrpo",
    "benchmarks.verl_cost",
    "benchmarks.verl_memory",
    "benchmarks.weight_sync",
    "hosts.faults",
    "hosts.join",
    "hosts.network",
    "hosts.one_driver",
    "hosts.slurm",
    "hosts.soak",
    "hosts.training",
    "objective.check",
    "studies.choose",
    "studies.factor",
    "studies.field.controls",
    "studies.field.newer",
    "studies.field.staleness",
    "studies.field.warm_start",
    "studies.forecast",
    "studies.gradient_variance",
    "studies.hints.gate",
    "studies.real_model.auto",
    "studies.real_model.calibration",
    "studies.real_model.compare",
    "studies.real_model.gate",
    "studies.real_model.tune",
    "studies.real_model.warm_up",
    "studies.trl_side_by_side",
}
"""Their smallest sizes take a core ten seconds or more, or a gigabyte of disk, or have tests: ``--help``."""
NOT_ON_A_PAGE = {
    "benchmarks.cluster_sim_cpu_curve",
    "benchmarks.grading.judges",
    "benchmarks.simulation.pass_rates",
    "benchmarks.step_ours",
    "benchmarks.step_trl",
    "hosts.relay",
    "objective.configurations",
    "studies.trl_run",
}
"""What another benchmark starts, or says to start first."""


def test_every_program_stands_on_a_page_and_here():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    on_pages = {name for page in pages for name in re.findall(r"python -m research\.([\w.]+\w)", page.read_text())}
    files = [path for path in (ROOT / "research").rglob("*.py") if '__name__ == "__main__"' in path.read_text()]
    programs = {".".join(path.relative_to(ROOT / "research").with_suffix("").parts) for path in files}
    programs = {name.removesuffix(".__main__") for name in programs}
    assert on_pages == set(SMALLEST) | START_ONLY == programs - NOT_ON_A_PAGE


def file_of(name):
    program = f"research/{name.replace('.', '/')}"
    return f"{program}/__main__.py" if (ROOT / program).is_dir() else f"{program}.py"


@pytest.fixture
def figures(tmp_path):
    """A folder like ``docs``, with the figures that some benchmarks start from."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("*.png"))
    return tmp_path / "docs"


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SMALLEST))
def test_a_command_of_the_pages_does_its_smallest_work(name, programs, figures):
    options = ["--folder", figures / "walk"] if name == "studies.sums" else []
    done = programs.run(file_of(name), *SMALLEST[name], *options, environment={"BENCHMARK_FIGURES": str(figures)})
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.long
def test_the_other_commands_of_the_pages_start(programs, figures):
    files = [file_of(name) for name in sorted(START_ONLY)]
    done = programs.run("tests/integration/help_of.py", *files, environment={"BENCHMARK_FIGURES": str(figures)})
    assert done.returncode == 0, done.stderr[-2000:]
