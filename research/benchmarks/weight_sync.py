"""Seconds of a weight sync by way and model: ``python -m research.benchmarks.weight_sync``.

A policy with float32 weights gives them to a vLLM engine in bfloat16, or in the type that the engine computes in:

- ``process``: published in memory of this machine, for an engine in a process of its own. Its parts: *copy* (cast, and
  from a GPU to the host), *hash* and *write* in the trainer, and *load* in the engine, which reads, hashes and loads.
  Where a GPU copies ahead, *copy* is what the trainer waits for it.
- ``ipc``: CUDA IPC handles, for an engine in a process of its own on the same GPU. Only on a GPU.
- ``reload``: by reference, for an engine in this process.

The first sync is reported by itself. Engines run without CUDA graphs, which a sync does not touch. On a GPU the figures
go to ``docs/performance/gpu_weight_sync.json``, else to ``docs/performance/weight_sync.json``, after each way.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ada_lightning.run.machine import SPIN_COUNT
from research.benchmarks.on_device import MODELS, add_seconds, has_gpu, model_folder, save_part, stopping_after

# As every program of this project has them, before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)

if TYPE_CHECKING:
    from torch import Tensor

GIB = 2**30
WAYS = ("process", "ipc", "reload")


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5, help="timed syncs of each way, after the first")
    parser.add_argument(
        "--models", nargs="+", choices=MODELS, help="default: smollm2, and on a GPU qwen_1_5b before it"
    )
    parser.add_argument("--ways", nargs="+", choices=WAYS, help="default: all that this machine has")
    add_seconds(parser)
    arguments = parser.parse_args()
    if arguments.repetitions < 1:
        parser.error(f"--repetitions must be at least 1; got {arguments.repetitions}")
    if "ipc" in (arguments.ways or ()) and not has_gpu():
        parser.error("ipc needs a GPU that torch sees; leave it out of --ways")
    from ada_lightning.run.machine import keep_freed_memory
    from ada_lightning.run.terminal import quiet_libraries

    quiet_libraries()
    keep_freed_memory()  # as every program does
    ways = arguments.ways or [way for way in WAYS if has_gpu() or way != "ipc"]
    models = arguments.models or (["qwen_1_5b", "smollm2"] if has_gpu() else ["smollm2"])
    missing, rows = [f"{model}, {way}" for model in models for way in ways], list[dict[str, Any]]()
    with stopping_after(arguments.seconds):
        for model in models:
            with model_folder(model) as folder:
                weights = policy_weights(folder)
                for way in ways:
                    rows.append({"model": model, "way": way} | measured(way, folder, weights, arguments.repetitions))
                    missing.remove(f"{model}, {way}")
                    print(rows[-1], flush=True)
                    print(save_part("weight_sync", missing, rows=rows))


def policy_weights(folder: Path) -> Callable[[], Iterable[tuple[str, Tensor]]]:
    """Return what gives a policy's weights, float32, on the GPU where there is one."""
    import torch
    from transformers import AutoModelForCausalLM

    from ada_lightning.parallel.gradients import whole_weights

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False)
    return partial(whole_weights, model.to("cuda" if has_gpu() else "cpu"))


def measured(
    way: str, folder: Path, weights: Callable[[], Iterable[tuple[str, Tensor]]], repetitions: int
) -> dict[str, Any]:
    """Open an engine and return the seconds of its first sync, of those after it, and of their parts."""
    found: list[dict[str, float]] = []
    with opened(way, folder) as engine, publishing_timed() as parts:
        for version in range(repetitions + 1):
            parts.update(dict.fromkeys(parts, 0.0))
            synchronize()
            started = time.monotonic()
            engine.load_weights(weights(), version)
            synchronize()
            seconds = time.monotonic() - started
            found.append({"seconds": seconds})
            if way == "process":
                found[-1] |= {**parts, "load": seconds - sum(parts.values())}
        num_bytes = sum(tensor.numel() for _, tensor in weights()) * bytes_of(engine.weight_dtype)
    return {
        "gib": round(num_bytes / GIB, 3),
        "dtype": engine.weight_dtype,
        "first_s": round(found[0]["seconds"], 3),
        "seconds": [round(row["seconds"], 3) for row in found[1:]],
        "parts_s": {
            part: round(statistics.median(row[part] for row in found[1:]), 3) for part in found[0] if part != "seconds"
        },
    }


@contextmanager
def opened(way: str, folder: Path) -> Iterator[Any]:
    """An engine that weights come to by a way."""
    from ada_lightning.rollout.engines.host import TrainerProcess
    from ada_lightning.rollout.engines.process_pool import ProcessPool
    from ada_lightning.rollout.engines.vllm_engine import VllmEngine
    from ada_lightning.rollout.engines.weight_transfer import CudaIpc, Reload

    engine = partial(
        VllmEngine,
        model_path=folder,
        max_model_tokens=320,
        eos_token_ids=(),
        max_num_seqs=32,
        weight_transfer=CudaIpc() if way == "ipc" else Reload(),
    )
    host = TrainerProcess() if way == "reload" else ProcessPool()
    with tempfile.TemporaryDirectory(prefix="weight_sync-") as logs:
        made = host.open(engine, Path(logs) / "engine.log")
        try:
            yield made
        finally:
            made.close()


@contextmanager
def publishing_timed() -> Iterator[dict[str, float]]:
    """Have the parts of publishing weights timed, in seconds; whoever reads them sets them back to 0."""
    from ada_lightning.rollout.engines import process_pool
    from ada_lightning.rollout.engines.published_weights import SharedWeights, WeightDigest, on_cpu

    parts = {"copy": 0.0, "hash": 0.0, "write": 0.0}
    add, write = WeightDigest.add, SharedWeights.write

    def timed_copy(named_tensors: Iterable[tuple[str, Tensor]], *others: Any) -> Iterator[tuple[str, Tensor]]:
        copied = iter(on_cpu(named_tensors, *others))
        while True:
            started = time.monotonic()
            try:
                item = next(copied)
            except StopIteration:
                return
            finally:
                parts["copy"] += time.monotonic() - started
            yield item

    def timed_add(digest: WeightDigest, *item: Any) -> None:
        started = time.monotonic()
        add(digest, *item)
        parts["hash"] += time.monotonic() - started

    def timed_write(memory: SharedWeights, named_tensors: Iterable[tuple[str, Tensor]]) -> Any:
        started = time.monotonic()
        try:
            return write(memory, named_tensors)
        finally:
            parts["write"] += time.monotonic() - started - parts["copy"] - parts["hash"]

    with (
        patch.object(process_pool, "on_cpu", timed_copy),
        patch.object(WeightDigest, "add", timed_add),
        patch.object(SharedWeights, "write", timed_write),
    ):
        yield parts


def synchronize() -> None:
    """Wait until the GPU is done."""
    if has_gpu():
        import torch

        torch.cuda.synchronize()


def bytes_of(dtype: str) -> int:
    """Return the bytes of one number of a type."""
    import torch

    return int(getattr(torch, dtype).itemsize)


if __name__ == "__main__":
    main()
