"""The field's model, after minutes of supervised arithmetic: ``python -m research.studies.field.warm_start``.

The same command gives another model on another machine: thousands of steps blow up the last digits. So the one that the
committed results start from is committed too, and this only unpacks it; ``--into FOLDER`` trains one anew.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

from ada_lightning.training.models.cache import prepare_once
from ada_lightning.training.models.tiny import TinyLlama
from research.studies.field.sums import problems, worked
from research.studies.runs import ROOT
from research.studies.supervised import labelled

MODEL = ROOT / "runs" / "field" / "model"
COMMITTED = Path(__file__).parent / "model"
NUM_STEPS = 2500
SEED_OF_PROBLEMS = 1_000_000
"""Far from the seeds of training and held-out problems."""


def warm_start(folder: Path, *, num_steps: int, batch_size: int, lr: float, seed: int) -> None:
    """Train the tiny model on worked sums and save it."""
    start = TinyLlama(seed=seed, hidden_size=64, num_layers=3, num_heads=2).prepare()
    tokenizer = AutoTokenizer.from_pretrained(start, trust_remote_code=False)
    model = AutoModelForCausalLM.from_pretrained(start, trust_remote_code=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, num_steps, pct_start=0.05)
    stream = problems(size=num_steps * batch_size, seed=SEED_OF_PROBLEMS + seed)
    mistakes = random.Random(seed)
    loss_sum = 0.0
    model.train()
    for step in range(num_steps):
        texts = [(expression, worked(expression, mistakes)) for expression, _ in islice(stream, batch_size)]
        token_ids_BT, labels_BT = labelled(tokenizer, texts)
        logits_BTV = model(input_ids=token_ids_BT).logits
        loss = functional.cross_entropy(logits_BTV[:, :-1].flatten(0, 1), labels_BT[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        loss_sum += float(loss.detach())
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}/{num_steps}  loss {loss_sum / 100:.3f}", flush=True)
            loss_sum = 0.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def prepare_model() -> None:
    """Put the committed model where the runs look for it."""

    def unpack(empty: Path) -> None:
        shutil.copytree(COMMITTED, empty, dirs_exist_ok=True)

    prepare_once(MODEL, unpack)
    weights = "model.safetensors"
    if (MODEL / weights).read_bytes() != (COMMITTED / weights).read_bytes():
        raise ValueError(
            f"{MODEL} is not the model that the committed results start from; move it away, and what was run from it"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Unpack the committed model, or train one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--into", type=Path, help="train a model into this folder, instead of unpacking the committed one"
    )
    options = parser.parse_args(arguments)
    if options.into is None:
        prepare_model()
        print(MODEL.relative_to(ROOT))
        return
    if options.into.exists():
        sys.exit(f"error: --into {options.into} is there already; choose a new folder")
    prepare_once(options.into, lambda empty: warm_start(empty, num_steps=NUM_STEPS, batch_size=64, lr=3e-3, seed=0))
    print(options.into)


if __name__ == "__main__":
    main()
