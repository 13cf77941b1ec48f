"""The tables of ``docs/gpu.md``, and those on memory of ``docs/scaling.md``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from research.benchmarks.report import DOCS, FOLDER, markdown

SAMPLED = {
    "long": "2 CPU cores, vLLM, 2 runs at once",
    "gpu": "one H200, transformers, 10 runs at once",
    "gpu_arms": "one H200, transformers, up to 12 at once",
}
"""Rows of ``docs/studies/real_model``, and where that page says that they ran."""


def memory_plan(plans: str) -> str:
    """What each setting needs on each GPU, in GiB."""

    def gib(row: Mapping[str, Any], *parts: str) -> str:
        return f"{sum(row['gib'][part] for part in parts):.1f}"

    heads = ["model", "GPUs", "weights, gradients, Adam", "activations, logits", "engine and its cache", "GiB a GPU"]
    lines = [
        [
            row["name"],
            row["gpus"],
            gib(row, "weights", "gradients", "optimizer"),
            gib(row, "activations", "logits"),
            gib(row, "engine_weights", "kv_cache"),
            ("**{:.0f}**" if row["fits"] else "{:.0f}: does not fit").format(row["total_gib"]),
        ]
        for row in _load("memory_plan")[plans]
    ]
    return markdown(heads, lines)


def memory_plan_settings() -> str:
    """The command line's part of each plan, and how many sequences its engine decodes at once."""
    lines = [
        [f"{row['name']}, {row['gpus']}", f"`{row['overrides']}`", row["sequences_in_cache"]]
        for row in _load("memory_plan")["plans"]
    ]
    return markdown(["model, GPUs", "settings", "sequences in the cache"], lines)


def memory_activations() -> str:
    """What autograd keeps of a layer, by formula and counted."""
    rows = _load("memory_plan")["activations"]
    heads = ["layer of", "tokens", "bytes by formula", "bytes counted"]
    return markdown(
        heads, [[row["model"], row["tokens"], f"{row['formula']:,}", f"{row['counted']:,}"] for row in rows]
    )


def gpu_update() -> str:
    """Seconds and memory of an update of a 1.5B model on a GPU."""
    found = _load("gpu_update")
    ours = found["variants"]["ours"]["seconds"]
    rows = dict(found["variants"])
    rows["`parameters=lora`"] = found["lora"]["ours"]
    rows["`parameters=lora`, checkpointing"] = found["lora"]["checkpointing"]
    lines = [
        [
            name,
            "{seconds:.2f} ({lowest_s:.2f} to {highest_s:.2f})".format_map(row),
            f"{row['seconds'] / ours:.2f}",
            f"{row['tokens_per_s']:,}",
            f"{row['peak_gib']:.1f}",
        ]
        for name, row in rows.items()
    ]
    return markdown(["update", "seconds (lowest to highest)", "over ours", "tokens/s", "peak GiB"], lines)


def gpu_sampling() -> str:
    """Generated tokens a second of GRPO's runs of the default model, dropped ones included."""
    lines = []
    for name, where in SAMPLED.items():
        speeds = [row["generated_tokens"] / row["seconds"]["rollout"] for row in _runs(name, "grpo_n4")]
        lines.append([where, len(speeds), f"{fmean(speeds):,.0f} ({min(speeds):,.0f} to {max(speeds):,.0f})"])
    return markdown(["where", "runs", "tokens/s of one run (lowest to highest)"], lines)


def gpu_acceptance() -> str:
    """Points of ``docs/gpu_acceptance.sh``: a table for each of its summaries in ``docs/performance``."""
    parts = [_acceptance(path) for path in sorted(FOLDER.glob("gpu_acceptance*.json"))]
    return "\n".join(parts) or "No run of these points on a GPU is on record.\n"


def _acceptance(path: Path) -> str:
    """Return one summary: the card in a sentence, then its points."""
    rows = json.loads(path.read_text(encoding="utf-8"))["points"]
    known = {key: next((row[key] for row in rows if row[key]), "unknown") for key in ("card", "driver", "torch")}
    lines = [
        [
            f"`{row['point']}`",
            row["vllm"] or "",
            row["runner"] or "",
            row["result"],
            f"{row['seconds']:.0f}",
            "" if row["gib"] is None else f"{row['gib']:.1f}",
        ]
        for row in rows
    ]
    heads = ["point", "vLLM", "runner", "result", "seconds", "GiB"]
    return "{card}, driver {driver}, torch {torch}:\n\n".format_map(known) + markdown(heads, lines)


def gpu_rollout() -> str:
    """Speed of rollouts on a GPU: ours compared with raw vLLM and with rounds."""
    rows = _load("gpu_rollout")["rows"]
    raw = {(row["work"], row["prompts"]): row for row in rows if row["way"] == "vllm"}
    lines = [
        [
            row["work"],
            row["sequences"],
            f"{raw[row['work'], row['prompts']]['tokens_per_s']:,.0f}",
            f"{row['tokens_per_s']:,.0f}",
            f"**{row['over_vllm']:.2f}**",
            f"{row['over_barrier']:.2f}",
            f"{row['wasted']:.1%}",
            f"{row['used_gib']:.1f}",
        ]
        for row in rows
        if row["way"] == "ahead"
    ]
    heads = ["work", "sequences", "raw vLLM, tokens/s", "ours", "of raw vLLM's", "times rounds", "dropped", "GiB taken"]
    return markdown(heads, lines)


def gpu_step_vs_trl() -> str:
    """Seconds of a step on a GPU, and how many times ours with every group trained is as fast."""
    medians = _load("gpu_step_vs_trl")["medians"]
    ours = medians["ours, every group trained"]["step_s"]
    lines = [
        [
            name,
            f"{row['step_s']:.2f} s",
            f"{row['rollout_s']:.2f} s",
            f"{row['update_s']:.2f} s",
            f"{row['tokens']:,.0f}",
            f"{row['step_s'] / ours:.2f}",
        ]
        for name, row in medians.items()
    ]
    return markdown(["variant", "step", "rollout", "update", "tokens", "over ours"], lines)


def weight_sync(name: str) -> str:
    """Seconds of a weight sync by model and way, with the parts of one that goes to another process."""
    lines = [
        [
            f"{row['model']}, {row['gib']:.2f} GiB",
            f"`{row['way']}`",
            f"{row['first_s']:.2f} s",
            f"{median(row['seconds']):.2f} s",
            ", ".join(f"{part} {seconds:.2f}" for part, seconds in row["parts_s"].items()),
        ]
        for row in _load(name)["rows"]
    ]
    return markdown(["model", "way", "first", "then", "parts, s"], lines)


def _runs(name: str, method: str) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a method, of a stage of the study of a real model."""
    path = DOCS / "studies" / "real_model" / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["name"].startswith(f"{method}-")]


def _load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return content


TABLES: dict[str, Callable[[], str]] = {
    "memory_plan": partial(memory_plan, "plans"),
    "memory_plan_settings": memory_plan_settings,
    "gpu_memory": partial(memory_plan, "without_vllm"),
    "memory_activations": memory_activations,
    "gpu_update": gpu_update,
    "gpu_sampling": gpu_sampling,
    "gpu_acceptance": gpu_acceptance,
    "gpu_rollout": gpu_rollout,
    "gpu_step_vs_trl": gpu_step_vs_trl,
    "gpu_weight_sync": partial(weight_sync, "gpu_weight_sync"),
    "weight_sync": partial(weight_sync, "weight_sync"),
}
