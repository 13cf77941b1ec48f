"""Runs that are stopped and continued, each part with any number of processes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
from lightning.pytorch import Callback
from safetensors import safe_open

from ada_lightning.callbacks.checkpoint import RolloutCheckpoint, StreamingCheckpointIO
from ada_lightning.parallel.gradients import whole_weights
from tests.unit.parallel.small_training import GivenRollouts, make_policy, make_trainer

TOKENIZER = SimpleNamespace(save_pretrained=lambda path: None)

ADAM = partial(torch.optim.AdamW, eps=1e-4)  # gradients that are nothing but rounding are not blown up to full size


class Position(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        trainer.datamodule.note_updates_done(pl_module.policy_version)


def run_steps(kind, path, run_dir, *, num_steps, resume=False, on_gpu=False, **strategy_options):
    """Train up to ``num_steps`` with AdamW, checkpoint at the end, and return the whole weights."""
    last = Path(run_dir) / "checkpoints" / "last"
    model_path = last.resolve() / "policy" if resume else path
    policy = make_policy(model_path, optimizer=ADAM, lr=1e-2, warmup_steps=2)
    data = GivenRollouts("uneven groups", num_steps=num_steps)
    checkpoint = RolloutCheckpoint(run_dir=run_dir, tokenizer=TOKENIZER, every_n_steps=0)
    trainer = make_trainer(
        kind,
        strategy_options=strategy_options,
        callbacks=[Position(), checkpoint],
        on_gpu=on_gpu,
        plugins=[StreamingCheckpointIO()],
    )
    trainer.fit(policy, datamodule=data, ckpt_path=last.resolve() / "trainer.ckpt" if resume else None)
    return {name: tensor.cpu().clone() for name, tensor in whole_weights(policy.model)}


def read_folder(folder):
    tensors = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            tensors |= {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - no mapping
    return tensors
