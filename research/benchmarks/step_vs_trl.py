"""Seconds per GRPO step, ours and TRL's, on the same work: ``python -m research.benchmarks.step_vs_trl``.

SmolLM2-135M on a CPU, 16 chain_sum prompts x 4 responses of at most 48 tokens, temperature 1, no KL, one optimiser step
per rollout. Both sides get the same prompts in every step, the same verifier, threads, clipping, AdamW and loss
reduction; the sampled responses differ, so seconds per generated token are reported next to seconds per step. In turns,
each in a process of its own, the first step of each process left out. Prints medians and ratios, writes
``docs/performance/step_vs_trl.json``.

``--search`` first finds the settings with which TRL is fastest: responses that pass through its policy at once, and
transformers' continuous batching. They are kept in ``docs/performance/step_vs_trl_search.json``, by which later runs
go.

What differs: TRL generates with transformers and we with vLLM (bfloat16 weights on both sides, except that the
``autocast`` variant of TRL computes in bfloat16 from float32 weights). We update float32 master weights under bfloat16
autocast; so does TRL's ``autocast`` variant, while its ``bfloat16`` variant has no float32 weights.

On a GPU a step has 64 prompts and responses of at most 256 tokens, and TRL generates with vLLM in its own process
(``use_vllm=True, vllm_mode="colocate"``); both sides correct for the sampler's log-probabilities, as they do by
default. ``--search`` tries responses at once and vLLM's share of the card. ``rollout=transformers`` is measured too.
The files are ``gpu_step_vs_trl.json`` and ``gpu_step_vs_trl_search.json``, saved after each process.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from research.benchmarks import report
from research.benchmarks.on_device import add_seconds, file_name, has_gpu, save_part, stopping_after
from research.benchmarks.step_task import MAX_NEW_TOKENS, NUM_PROMPTS, Work

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

BATCH_SIZES, GPU_BATCH_SIZES, GPU_MEMORY = (8, 16, 32, 64), (64, 256, 128, 32), 0.6
"""Responses that pass through TRL's policy at once, and a larger share of the card than TRL's default for its vLLM."""
GPU_WORK = Work(num_prompts=64, max_new_tokens=256)
TRL, OURS = "research.benchmarks.step_trl", "research.benchmarks.step_ours"
VARIANTS: dict[str, list[str]] = {
    "TRL, bfloat16 weights": [TRL, "--weights", "bfloat16"],
    "TRL, float32 weights, autocast": [TRL, "--weights", "float32", "--autocast"],
    "ours, every group trained": [OURS, "--every-group"],
    "ours, groups without signal skipped": [OURS],
}
GPU_OURS = ["trainer=gpu", "rollout.max_model_tokens=512", "data.max_tokens_per_microbatch=16384"]
GPU_VARIANTS: dict[str, list[str]] = {
    "TRL with vLLM, bfloat16 weights": [*VARIANTS["TRL, bfloat16 weights"], "--vllm"],
    "TRL with vLLM, float32 weights, autocast": [*VARIANTS["TRL, float32 weights, autocast"], "--vllm"],
    "ours, every group trained": [OURS, "--every-group", *GPU_OURS, "rollout=vllm_gpu"],
    "ours, groups without signal skipped": [OURS, *GPU_OURS, "rollout=vllm_gpu"],
    "ours with transformers, every group trained": [
        OURS, "--every-group", *GPU_OURS, "rollout=transformers", "rollout.engine.max_num_seqs=256",
    ],
}  # fmt: skip
Steps = list[dict[str, float]]


def main() -> None:
    """Measure the variants in turns and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=2, help="processes per variant")
    parser.add_argument("--steps", type=int, default=3, help="timed steps per process, after one that is not")
    parser.add_argument("--search", action="store_true", help="find TRL's fastest settings first")
    parser.add_argument("--only", choices=["ours"], help="leave TRL out, where it is not installed")
    parser.add_argument("--prompts", type=int, help=f"of a step; default: {NUM_PROMPTS}, on a GPU 64")
    parser.add_argument("--max-new-tokens", type=int, help=f"of a response; default: {MAX_NEW_TOKENS}, on a GPU 256")
    add_seconds(parser)
    arguments = parser.parse_args()
    if arguments.only and arguments.search:
        parser.error("--search tries TRL's settings, and --only ours leaves TRL out; use one of them")
    if not arguments.only and find_spec("trl") is None:
        sys.exit(
            "error: this benchmark compares with TRL, which is not installed: pip install -e '.[bench]', or --only ours"
        )
    default = GPU_WORK if has_gpu() else Work()
    work = Work(arguments.prompts or default.num_prompts, arguments.max_new_tokens or default.max_new_tokens)
    comparison = Comparison(work, arguments.steps, only_ours=bool(arguments.only))
    with stopping_after(arguments.seconds):
        if arguments.search:
            comparison.search()
        comparison.run(arguments.turns)
    for name, figures in (comparison.medians() | comparison.ratios()).items():
        print(name, figures)
    if comparison.errors:
        sys.exit(f"error: these did not run: {'; '.join(comparison.errors)}")


class Comparison:
    """Steps of every variant so far, saved whenever there are more.

    Args:
        work: of a step.
        num_steps: timed in each process.
        only_ours: whether TRL is left out.
    """

    def __init__(self, work: Work, num_steps: int, *, only_ours: bool = False) -> None:
        variants = GPU_VARIANTS if has_gpu() else VARIANTS
        self._variants = {name: of for name, of in variants.items() if not only_ours or is_ours(name)}
        self._work, self._num_steps = work, num_steps
        self._timed: dict[str, list[Steps]] = {name: [] for name in self._variants}
        self._tried: list[tuple[dict[str, Any], Steps]] = []
        self.errors: dict[str, str] = {}
        """Of variants that failed, which have no more turns."""

    def search(self) -> None:
        """Time TRL's variants by several settings. One that does not run has the last line of its error.

        On a GPU, where time may run out, ours have their first turn as soon as each variant of TRL has one setting.
        """
        ours, theirs = ([name for name in self._variants if is_ours(name) is side] for side in (True, False))
        for number, row in enumerate(self._settings(theirs)):
            if has_gpu() and number in (0, len(theirs)):
                self._turn(0, ours[1:] if number else ours[:1])
            try:
                steps = self._process(row["variant"], options(row), seed=0)
                self._tried.append((row | {"step_s": summary(steps)["step_s"]}, steps))
            except RuntimeError as error:
                self._tried.append((row | {"error": str(error).strip().splitlines()[-1]}, []))
            print(self._tried[-1][0], flush=True)
            save_part("step_vs_trl_search", [], module="step_vs_trl", rows=self._rows())
            if has_gpu():
                self._save(["the search's other settings"])

    def run(self, num_turns: int) -> None:
        """Time every variant in turns, TRL with the fastest settings that a search has found."""
        for turn in range(num_turns):
            self._turn(turn, [name for name, done in self._timed.items() if len(done) <= turn], num_turns)

    def medians(self) -> dict[str, dict[str, float]]:
        """Return the figures of each variant; of one that had no turn yet, those of its fastest setting."""
        steps = {name: [step for turn in turns for step in turn] for name, turns in self._timed.items()}
        for row, found in sorted(self._tried, key=lambda tried: -tried[0].get("step_s", math.inf)):
            if found and not self._timed[row["variant"]]:
                steps[row["variant"]] = found
        return {name: summary(found) for name, found in steps.items() if found}

    def ratios(self) -> dict[str, dict[str, float]]:
        """Return how many times faster ours are."""
        return speedups(self.medians())

    def _settings(self, theirs: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield what the search tries: sizes, and another way to generate at the fastest of them.

        On a GPU all variants have a size before the next one; on a CPU a variant has all its settings before the next.
        """
        on_gpu = has_gpu()
        sizes = [n for n in (GPU_BATCH_SIZES if on_gpu else BATCH_SIZES) if self._work.num_responses % n == 0]
        plain, other = (
            ({"gpu_memory": value} for value in (None, GPU_MEMORY))
            if on_gpu
            else ({"continuous_batching": value} for value in (False, True))
        )
        for names in [theirs] if on_gpu else [[name] for name in theirs]:
            yield from ({"variant": name, "batch_size": size} | plain for size in sizes for name in names)
            for name in names:
                of = [row for row in self._rows() if row["variant"] == name]
                best = min(of, key=lambda row: row.get("step_s", math.inf))["batch_size"]
                yield {"variant": name, "batch_size": best} | other

    def _turn(self, turn: int, names: Sequence[str], num_turns: int = 1) -> None:
        settings = fastest(self._rows() or _rows_of_before())
        for name in [name for name in names if name not in self.errors]:
            try:
                self._timed[name].append(self._process(name, settings.get(name, []), seed=turn))
                print(name, self._timed[name][-1], flush=True)
            except RuntimeError as error:
                self.errors[name] = str(error)
                print(f"{name}: {error}", file=sys.stderr, flush=True)
            missing = {other: num_turns - len(done) for other, done in self._timed.items()}
            self._save([f"{other}, {number} of {num_turns} turns" for other, number in missing.items() if number > 0])

    def _process(self, name: str, settings: Sequence[str], seed: int) -> Steps:
        more = self._work.arguments() if self._work != Work() else []
        return run([*self._variants[name], *settings, *more], seed=seed, num_steps=self._num_steps)

    def _rows(self) -> list[dict[str, Any]]:
        return [row for row, _ in self._tried]

    def _save(self, missing: list[str]) -> None:
        steps = {name: [step for turn in turns for step in turn] for name, turns in self._timed.items()}
        of_gpu = {"prompts": self._work.num_prompts, "max_new_tokens": self._work.max_new_tokens} if has_gpu() else {}
        save_part(
            "step_vs_trl",
            missing,
            threads=int(os.environ["OMP_NUM_THREADS"]),
            **of_gpu,
            medians=self.medians(),
            ratios=self.ratios(),
            steps=steps,
        )


def _rows_of_before() -> list[dict[str, Any]]:
    """Return what the last search found, if there was one."""
    path = report.FOLDER / f"{file_name('step_vs_trl_search')}.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def run(variant: Sequence[str], *, seed: int, num_steps: int) -> Steps:
    """One process of a variant; its steps without the first, which builds kernels and fills caches.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", *variant, "--seed", str(seed), "--steps", str(num_steps + 1)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])["steps"][1:]


def is_ours(name: str) -> bool:
    """Whether a variant is this project's."""
    return name.startswith("ours")


def options(row: Mapping[str, Any]) -> list[str]:
    """Arguments of ``step_trl`` for a setting of a search."""
    given = ["--batch-size", str(row["batch_size"]), *["--continuous-batching"] * bool(row.get("continuous_batching"))]
    return [*given, *(["--gpu-memory", str(row["gpu_memory"])] if row.get("gpu_memory") else [])]


def fastest(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the arguments of the fastest setting of each variant."""
    ran = sorted((row for row in rows if "step_s" in row), key=lambda row: -row["step_s"])
    return {row["variant"]: options(row) for row in ran}


def summary(steps: Steps) -> dict[str, float]:
    """Medians of every figure, and of the seconds per 1,000 generated tokens."""
    figures = {name: statistics.median(step.get(name, 0.0) for step in steps) for name in steps[0]}
    return figures | {"s_per_1k_tokens": statistics.median(1000 * step["step_s"] / step["tokens"] for step in steps)}


def speedups(medians: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """How many times faster ours is than each variant of TRL: with bfloat16 weights, and with our numerics."""
    return {
        f"{ours} / {theirs}": {
            "per_step": medians[theirs]["step_s"] / medians[ours]["step_s"],
            "per_token": medians[theirs]["s_per_1k_tokens"] / medians[ours]["s_per_1k_tokens"],
        }
        for theirs in medians
        if not is_ours(theirs)
        for ours in medians
        if is_ours(ours)
    }


if __name__ == "__main__":
    main()
