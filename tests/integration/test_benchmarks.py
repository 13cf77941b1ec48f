"""Every benchmark runs at its smallest size: what it wraps, imports and calls is still there."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from tests.integration.conftest import ROOT, SMALL

pytestmark = pytest.mark.vllm

OVERRIDES = [word for word in SMALL if not word.startswith(("callbacks.", "num_steps="))]
"""Of a run in which a step takes a fraction of a second; the benchmarks set the rest themselves."""
SMALLEST = {
    "adaptive_cost": ["--rounds", 2, *OVERRIDES],
    "allocators": ["--prompts", 4, "--steps", 2],
    "cluster_sim": ["--only-validate"],
    "curriculum": ["--prompts", 8, "--per-step", 2, "--epochs", 2],
    "estimator_bias": [],
    "giving_up": ["--prompts", 4, "--visits", 1],
    "memory_plan": [],
    "overhead": ["--steps", 2, *OVERRIDES],
    "reproducible_cost": ["--prompts", 2, "--repeats", 1, *OVERRIDES],
    "reward_attack": ["--num", 20, "--orders", 4],
    "step_vs_trl": ["--turns", 1, "--steps", 1],
    "update": ["--model", "tiny", "--repetitions", 1, "--no-memory", "--variants", "ours"],
}
TOO_LONG = {
    "calm_memory",
    "checkpoint_cost",
    "cluster_sim_cpu_curve",
    "engine",
    "engine_pool",
    "exact_resume",
    "growth",
    "rollout",
    "soak",
}
"""Their smallest sizes take a core half a minute or more, or a gigabyte of disk: only that they start."""
OF_OTHERS = {"tables", "step_ours", "step_trl"}
"""What only rewrites pages, which has tests of its own, and the two sides of step_vs_trl."""


def test_every_benchmark_is_here():
    programs = {path.stem for path in (ROOT / "research" / "benchmarks").glob("*.py") if "__main__" in path.read_text()}
    assert programs - OF_OTHERS == set(SMALLEST) | TOO_LONG


@pytest.fixture
def figures(tmp_path):
    """A folder like ``docs``, with the figures that some benchmarks start from."""
    shutil.copytree(ROOT / "docs" / "performance", tmp_path / "performance", ignore=shutil.ignore_patterns("*.png"))
    return tmp_path


@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_runs_at_its_smallest(name, programs, figures):
    if name == "step_vs_trl" and importlib.util.find_spec("trl") is None:
        pytest.skip("needs trl: pip install -e '.[bench]'")
    environment = {"BENCHMARK_FIGURES": str(figures)}
    done = programs.run(f"research/benchmarks/{name}.py", *SMALLEST[name], environment=environment)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("name", sorted(TOO_LONG))
def test_a_long_benchmark_starts(name, programs):
    done = programs.run(f"research/benchmarks/{name}.py", "--help")
    assert done.returncode == 0, done.stderr[-2000:]
