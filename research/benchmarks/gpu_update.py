"""What an update takes on a GPU: seconds and memory, beside a bare loop, padded rows and each switch.

``python -m research.benchmarks.gpu_update`` on a machine with an NVIDIA GPU of 80 GiB; about five minutes. The model
has Qwen2.5-Math-1.5B's shapes and random weights: nothing here depends on what it knows. A batch is 16 prompts of 128
tokens with 4 responses each of log-normal length, up to 2,048 tokens as in the paper's runs.

Variants are timed in turn in one process, medians over repetitions; peak memory is that of torch's allocator during a
variant's own updates. Every part is saved when it is done, and the other parts of the file stay: ``--parts`` measures
some of them again. The file says by ``made`` what each part was measured with. ``--profile`` prints where the GPU's
time goes and saves nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

import torch

from ada_lightning.run.machine import has_fast_bfloat16
from research.benchmarks import report
from research.benchmarks.memory_plan import GIB, QWEN_1_5B, RESERVE_GIB, Architecture, Setting, plan
from research.benchmarks.on_device import add_seconds, stopping_after, write_model
from research.benchmarks.update import make_policy, make_variants, pack, random_groups, unloaded_policy, update

TINY = Architecture("tiny", 2, 128, 256, 2, 1, 64, 1_000, True, True)
PROMPT_TOKENS, NUM_PROMPTS, MAX_RESPONSE = 128, 16, 2_048
MAX_TOKENS, LOGITS_AT_ONCE = 8_192, 1_024
"""``data.max_tokens_per_microbatch`` and ``policy.logprob_chunk_size`` of the plan in docs/scaling.md."""
STRATEGIES = ("gpu", "fsdp")
PARTS = ("variants", "memory", "lora", "trainers")


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5, help="timed updates of each variant")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="which of them; the others stay")
    parser.add_argument("--tiny", action="store_true", help="a tiny model on whatever device there is: does it run")
    parser.add_argument("--profile", action="store_true", help="only where the time of one update goes")
    parser.add_argument("--strategy", choices=STRATEGIES, help=argparse.SUPPRESS)  # what a child process measures
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    add_seconds(parser)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not arguments.tiny:
        sys.exit("error: this machine has no GPU that torch sees; --tiny only tries whether the benchmark runs")
    architecture = TINY if arguments.tiny else QWEN_1_5B
    groups = paper_groups(2, 64) if arguments.tiny else paper_groups(NUM_PROMPTS)
    if arguments.strategy:
        print(json.dumps(by_trainer(arguments.strategy, arguments.model, groups, arguments.repetitions)))
        return
    folder, found = Path(tempfile.mkdtemp(prefix="gpu_update-")), dict[str, Any]()
    try:
        with stopping_after(arguments.seconds):
            model = write_model(architecture, folder / "model", device)
            if arguments.profile:
                profile(model, groups, device)
                return
            for part, figures in measured(
                architecture, model, groups, arguments.repetitions, device, parts=arguments.parts
            ):
                found[part] = figures
                if not arguments.tiny:
                    save_part(part, figures)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(found, indent=1))


def save_part(part: str, figures: Mapping[str, Any]) -> None:
    """Put a part's figures into the file and leave the others there; ``made`` says what each was measured with."""
    path = report.FOLDER / "gpu_update.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    now = report.header("research.benchmarks.gpu_update")
    about = {name: content.pop(name) for name in (*now, "gpu", "cut_off") if name in content}
    made = content.pop("made", None) or {old: about for old in PARTS if old in content}
    trainers = (
        {"trainers": content["trainers"] | figures["trainers"]} if {*content} & {*figures} >= {"trainers"} else {}
    )
    report.save("gpu_update", **content | figures | trainers, made=made | {part: now})


def measured(
    architecture: Architecture,
    model: Path,
    groups: list,
    repetitions: int,
    device: str,
    *,
    parts: Sequence[str] = PARTS,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each part and its figures, as soon as there are more of them."""
    if {*parts} & {"variants", "memory"}:
        policy, optimizer = make_policy(model, device=device, logprob_chunk_size=LOGITS_AT_ONCE)
        largest = max(len(m.input_ids_T) for m in pack(groups, share_prompts=True, max_tokens=MAX_TOKENS))
        if "variants" in parts:
            rates = {"matmul_tflops": matmul_tflops(device)}
            rates["plan_gib"] = {"checkpointing": planned(architecture, largest)}
            variants = gpu_variants(policy, groups, optimizer)
            yield "variants", rates | {"variants": timed(variants, repetitions, device, architecture)}
        if "memory" in parts:
            yield "memory", {"memory": memory(policy, groups, optimizer, architecture, device)}
        del policy, optimizer
        empty(device)
    if "lora" in parts:
        yield "lora", {"lora": lora(architecture, model, groups, device)}
        empty(device)
    if "trainers" not in parts:
        return
    if architecture is TINY:
        yield "trainers/gpu", {"trainers": {"gpu": by_trainer("gpu", model, groups, repetitions, precision="32-true")}}
        return
    for kind in STRATEGIES:
        yield f"trainers/{kind}", {"trainers": {kind: in_child(kind, model, repetitions)}}


def paper_groups(num_prompts: int, max_response: int = MAX_RESPONSE) -> list:
    """Return prompts with four responses each, of log-normal length: median 400 tokens, mean about 530 uncut."""

    def length(generator: random.Random) -> int:
        return min(max_response, 1 + int(generator.lognormvariate(6.0, 0.8)))

    return random_groups(length, num_prompts, PROMPT_TOKENS)


def gpu_variants(policy: Any, groups: list, optimizer: Any) -> dict[str, Callable[[], int]]:
    """Return the variants of the CPU's benchmark, and attention as other devices compute it."""
    from unittest.mock import patch

    from ada_lightning.training.attention import packed

    variants = make_variants(policy, groups, optimizer, MAX_TOKENS)

    def in_pieces() -> int:
        with patch.multiple(packed, can_attend=lambda query: False, _is_off_in_half=lambda query: False):
            return variants["ours"]()

    return variants | {"documents one by one": in_pieces}


def timed(
    variants: Mapping[str, Callable[[], int]], repetitions: int, device: str, architecture: Architecture
) -> dict[str, Any]:
    """Return seconds, tokens, the share of a matrix product's rate and peak memory of every variant."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    num_tokens, peak = dict.fromkeys(variants, 0), dict.fromkeys(variants, 0.0)
    first: dict[str, float] = {}
    for repetition in range(repetitions + 1):
        for name, run in variants.items():
            reset_peak(device)
            started = time.monotonic()
            num_tokens[name] = run()
            synchronize(device)
            spent = time.monotonic() - started
            if repetition:
                seconds[name].append(spent)
            else:  # builds kernels
                first[name] = spent
            peak[name] = max(peak[name], peak_gib(device))
    found = {}
    for name, values in seconds.items():
        median = statistics.median(values)
        found[name] = {
            "seconds": round(median, 4),
            "lowest_s": round(min(values), 4),
            "highest_s": round(max(values), 4),
            "first_s": round(first[name], 2),
            "computed_tokens": num_tokens[name],
            "tokens_per_s": round(num_tokens[name] / median),
            "times_ours": round(median / statistics.median(seconds["ours"]), 3),
            # Forward and backward of every weight that is in a matrix product, attention left out.
            "tflops": round(6 * architecture.parameters * num_tokens[name] / median / 1e12, 1),
            "peak_gib": round(peak[name], 2),
        }
        print(name, found[name], file=sys.stderr, flush=True)
    return found


def memory(policy: Any, groups: list, optimizer: Any, architecture: Architecture, device: str) -> dict[str, Any]:
    """Return peak GiB of an update by tokens of a microbatch, with and without checkpointing, and what the plan says.

    ``outside`` is what the GPU has given away beside torch's allocator: the CUDA context and kernels.
    """
    rows = []
    for max_tokens in (MAX_TOKENS,) if architecture is TINY else (MAX_TOKENS // 2, MAX_TOKENS, 2 * MAX_TOKENS):
        batch = pack(groups, share_prompts=True, max_tokens=max_tokens).to(policy.device)
        largest = max(microbatch.num_computed_tokens for microbatch in batch)
        for is_checkpointing in (True, False):
            if is_checkpointing:
                policy.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            else:
                policy.model.gradient_checkpointing_disable()
            reset_peak(device)
            row = {"max_tokens": max_tokens, "largest": largest, "checkpointing": is_checkpointing}
            try:
                update(policy, batch, optimizer)
                synchronize(device)
                started = time.monotonic()
                update(policy, batch, optimizer)
                synchronize(device)
                row |= {"seconds": round(time.monotonic() - started, 3), "peak_gib": round(peak_gib(device), 2)}
            except torch.OutOfMemoryError:
                row["peak_gib"] = None  # does not fit
                optimizer.zero_grad()
                empty(device)
            rows.append(row)
    outside = 0.0
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
        outside = (total - free - torch.cuda.memory_reserved()) / GIB
    return {
        "rows": rows,
        "plan_gib": {row["largest"]: planned(architecture, row["largest"]) for row in rows if row["checkpointing"]},
        "outside_gib": round(outside, 2),
        "reserve_gib": RESERVE_GIB,
    }


def planned(architecture: Architecture, max_tokens: int, lora_rank: int = 0) -> float:
    """Return the plan's GiB of the trainer alone, checkpointing on, without the allowance."""
    parts = plan(Setting("", "", architecture, 1, 80, max_tokens, LOGITS_AT_ONCE, lora_rank=lora_rank))
    return round(parts.weights + parts.gradients + parts.optimizer + parts.activations + parts.logits, 2)


def to_engine(policy: Any) -> dict[str, float]:
    """Return the seconds until all weights stand, in bfloat16, in memory that engines of the machine read."""
    from ada_lightning.parallel.gradients import whole_weights
    from ada_lightning.rollout.engines.published_weights import HostBuffer, SharedWeights, on_cpu

    memory, buffer, seconds = SharedWeights(), HostBuffer(), []
    for _ in range(2):
        started = time.monotonic()
        tensors, digest = memory.write(on_cpu(whole_weights(policy.model), "bfloat16", buffer))
        seconds.append(time.monotonic() - started)
        del tensors
    memory.close()
    return {"gib": round(digest.num_bytes / GIB, 2), "seconds": round(min(seconds), 2), "first_s": round(seconds[0], 2)}


def lora(architecture: Architecture, model: Path, groups: list, device: str) -> dict[str, Any]:
    """Return seconds and peak memory of an update of adapters alone."""
    from ada_lightning.training.models.lora import LoraParameters

    policy, optimizer = make_policy(
        model, device=device, parameters=LoraParameters(rank=32), logprob_chunk_size=LOGITS_AT_ONCE
    )
    if has_fast_bfloat16(on_gpu=device == "cuda"):  # as a run does where it computes in it
        policy.trained.hold_frozen(policy.model, torch.bfloat16)
    batch = pack(groups, share_prompts=True, max_tokens=MAX_TOKENS).to(policy.device)
    found: dict[str, Any] = {"plan_gib": planned(architecture, max(m.num_computed_tokens for m in batch), 32)}
    for is_checkpointing in (False, True):
        if is_checkpointing:
            policy.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        rows = timed({"ours": lambda: update(policy, batch, optimizer)}, 3, device, architecture)
        found["checkpointing" if is_checkpointing else "ours"] = rows["ours"]
    return found


def in_child(kind: str, model: Path, repetitions: int) -> dict[str, Any]:
    """Measure a trainer in a process of its own: a group of processes is made once in a life."""
    options = ["--strategy", kind, "--model", str(model), "--repetitions", str(repetitions)]
    command = [sys.executable, "-m", "research.benchmarks.gpu_update", *options]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    print(kind, found, file=sys.stderr, flush=True)
    return found


def by_trainer(
    kind: str, model: Path, groups: list, repetitions: int, *, precision: str = "bf16-mixed"
) -> dict[str, Any]:
    """Return what an update takes in Lightning's trainer, with everything around it, and giving weights to an engine.

    Args:
        kind: one process as ``trainer=gpu``, or a group of one process as ``trainer=fsdp``.
        model: its folder.
        groups: of the batch.
        repetitions: timed updates, after one that is not.
        precision: of Lightning's trainer.
    """
    from dataclasses import replace

    from lightning.pytorch import Callback, LightningDataModule, Trainer

    from ada_lightning.parallel.strategies import ShardedStrategy
    from ada_lightning.training.batch import TrainingBatch

    batch = pack(groups, share_prompts=True, max_tokens=MAX_TOKENS)

    class Given(LightningDataModule):
        def train_dataloader(self) -> Given:
            return self  # of a list Lightning would combine the parts

        def __len__(self) -> int:
            return repetitions + 1

        def __iter__(self) -> Iterator[TrainingBatch]:
            return (replace(batch, policy_version=version) for version in range(repetitions + 1))

    device = "cuda" if torch.cuda.is_available() else "cpu"
    seconds: list[float] = []
    found: dict[str, Any] = {}

    class Clock(Callback):
        def on_train_batch_start(self, *_: Any) -> None:
            synchronize(device)
            self.started = time.monotonic()

        def on_train_batch_end(self, *_: Any) -> None:
            synchronize(device)
            seconds.append(time.monotonic() - self.started)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            found["peak_gib"] = round(peak_gib(device), 2)
            found["to_engine"] = to_engine(pl_module)

    policy = unloaded_policy(model, logprob_chunk_size=LOGITS_AT_ONCE)
    trainer = Trainer(
        accelerator=device,
        devices=1,
        strategy=ShardedStrategy() if kind == "fsdp" else "auto",
        precision=precision,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Clock()],
    )
    trainer.fit(policy, datamodule=Given())
    return {"seconds": round(statistics.median(seconds[1:]), 4), "first_s": round(seconds[0], 2)} | found


def matmul_tflops(device: str, size: int = 8_192) -> float:
    """Return the rate of one large matrix product in bfloat16 on random data: what an update is held against."""
    size = size if device == "cuda" else 256
    first, second = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(13):
        synchronize(device)
        started = time.monotonic()
        first @ second
        synchronize(device)
        seconds.append(time.monotonic() - started)
    return round(2 * size**3 / statistics.median(seconds[3:]) / 1e12, 1)


def profile(model: Path, groups: list, device: str) -> None:
    """Print which kernels an update's time goes to."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    policy, optimizer = make_policy(model, device=device, logprob_chunk_size=LOGITS_AT_ONCE)
    batch = pack(groups, share_prompts=True, max_tokens=MAX_TOKENS).to(policy.device)
    for _ in range(2):
        update(policy, batch, optimizer)
    synchronize(device)
    with profiled(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        update(policy, batch, optimizer)
        synchronize(device)
    by = f"self_{device}_time_total"
    print(found.key_averages().table(sort_by=by, row_limit=30, max_name_column_width=60))


def synchronize(device: str) -> None:
    """Wait until the GPU is done."""
    if device == "cuda":
        torch.cuda.synchronize()


def empty(device: str) -> None:
    """Give back what torch's allocator holds for later."""
    if device == "cuda":
        torch.cuda.empty_cache()


def reset_peak(device: str) -> None:
    """Begin to look for the highest memory."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()


def peak_gib(device: str) -> float:
    """Return the highest memory since, of torch's allocator."""
    return torch.cuda.max_memory_allocated() / GIB if device == "cuda" else 0.0


if __name__ == "__main__":
    main()
