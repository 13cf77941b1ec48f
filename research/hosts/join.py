"""Engines on other hosts against a run on one host, and who is refused: ``python -m research.hosts.join``.

Writes ``docs/reliability/hosts_join.json``.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any

from research.benchmarks.report import markdown
from research.hosts.cluster import LAG, QUIET, VLLM, Cluster, Training, cluster, differences
from research.hosts.figures import load, quoted, save
from research.hosts.network import ROOT

STEPS = 5
_OTHER_PYTHON = """
import collections, platform, sys
Version = collections.namedtuple("Version", "major minor micro releaselevel serial")
sys.version_info = Version(*sys.version_info[:2], 99, "final", 0)
platform.python_version = lambda: ".".join(map(str, sys.version_info[:3]))
"""
"""Makes an interpreter say that it is a later one: a machine has no second one that Ray is installed for."""


def main() -> None:
    """Compare, be refused, print and save."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with cluster() as ray:
        rows = [compare(ray, lag) for lag in (0, 1)]
    with cluster() as ray:
        refusals = refused(ray)
    save("join", steps=STEPS, runs=rows, refusals=refusals)


def compare(ray: Cluster, lag: int) -> dict[str, Any]:
    """Run with engines on ``b`` and ``c``, and with one beside the trainer; return how the two differ."""
    options = (f"num_steps={STEPS}", *(LAG if lag else ()))
    # One response at a time: rounding depends on what is computed together.
    options = (*options, "rollout.engine.max_num_seqs=1")
    one = Training(ray.hosts["a"], ray.folder, f"one-{lag}", ("rollout=vllm_process", *VLLM[:2], *options)).finish()
    if not ray.nodes():
        ray.start("b", "c")
    several = ray.train(f"several-{lag}", *options)
    found = differences(several.finish(), one)
    del found["logprob_gap"]  # with a lag it is that of two policies
    return {"max_staleness": lag, **found}


def refused(ray: Cluster) -> list[dict[str, str]]:
    """Try to join without a token, with another Python and without the model; return the sentences."""
    c, log = ray.hosts["c"], ray.folder / "ray-c.log"
    (ray.folder / "other").mkdir()
    (ray.folder / "other/sitecustomize.py").write_text(_OTHER_PYTHON)
    other = {"PYTHONPATH": f"{ray.folder / 'other'}:{ROOT}"}
    ray.start("b")
    found = []

    def note(case: str, text: str, sentence: str) -> None:
        match = re.search(sentence, text)
        if match is None:
            raise RuntimeError(f"{case}: no sentence like {sentence} in {text[-2000:]}")
        found.append({"case": case, "sentence": " ".join(match[0].split())})

    def end_of_run(*overrides: str, **options: Any) -> str:
        run = ray.train(
            f"refused-{len(found)}", "num_steps=1", "rollout.host.start_timeout_s=60", *overrides, **options
        )
        if run.wait() == 0:
            raise RuntimeError(f"a run that had to be refused went through: {run.printed()[-2000:]}")
        return run.printed()

    note(
        "trainer without the token", end_of_run(environment=QUIET), r"Ray cannot be reached at[^)]*RAY_AUTH_TOKEN_PATH"
    )
    ray.join("c", {"RAY_AUTH_MODE": "disabled"}).wait(120)
    note("host without the token", log.read_text(), r"InvalidAuthToken: Authentication token is missing or incorrect")
    ray.join("c", other).wait(120)
    note("host with another Python", log.read_text(), r"(?s)Version mismatch: .*?Python: [\d.]+\n.*?Python: [\d.]+")
    shortage = r"the engines need [^;]*; they wait up to .*? for others to join"
    note("run that lacks a host", end_of_run("rollout.host.start_timeout_s=5"), shortage)
    ray.join("c", other | {"RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor"})
    ray.wait_for_nodes(3)
    note("engine with another Python", end_of_run(), r"host c \([\d.]+\) has Python .*? on all hosts")
    c.kill()
    ray.join("c")
    c.hide(model_cache())
    ray.wait_for_nodes(3)
    note("host without the model", end_of_run(), r"host c \([\d.]+\) has no model at .*? copy it there")
    for each in found:
        each["sentence"] = each["sentence"].replace(str(model_cache()), "...").replace(str(ROOT), "...")
    return found


def model_cache() -> Path:
    """Where the random model lies."""
    return Path(os.environ.get("ADA_LIGHTNING_CACHE", Path.home() / ".cache/ada_lightning"))


def runs_table() -> str:
    """Return the comparison as Markdown."""
    rows = load("join")["runs"]
    names = {
        "max_staleness": "`rollout.max_staleness`", "responses": "responses", "missing": "missing", "twice": "twice",
        "differ": "that differ",
    }  # fmt: skip
    return markdown(
        [*names.values(), "largest difference of a weight"],
        [[*(row[name] for name in names), f"{row['weights']:.1g}"] for row in rows],
    )


def refusals() -> str:
    """Return the sentences for the page."""
    return quoted({row["case"]: row["sentence"] for row in load("join")["refusals"]})


if __name__ == "__main__":
    main()
