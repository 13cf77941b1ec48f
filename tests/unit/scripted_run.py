"""Whole runs without a model: real trainer, data and checkpoints, and responses that are scripted."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from lightning.pytorch import Trainer

from ada_lightning.callbacks.adaptive_sampling import AdaptiveSampling
from ada_lightning.callbacks.checkpoint import RolloutCheckpoint
from ada_lightning.callbacks.rollout_listener import RolloutListener
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.training.policy import PolicyModule
from research.scripted import ScriptedGrader
from tests.unit.methods.curriculum.histories import prompts

TOKENIZER = SimpleNamespace(
    decode=lambda response_ids, **options: str(response_ids[0]), save_pretrained=lambda path: None
)


class NumberTokenizer:
    """Makes one token of a number, and more than a prompt may have of those that are too long."""

    chat_template = None

    def __init__(self, too_long=()):
        self.too_long = too_long

    def __call__(self, text):
        return {"input_ids": [int(text)] * (9 if int(text) in self.too_long else 1)}

    def get_vocab(self):
        return {}


class Grader(ScriptedGrader):
    def start(self):
        pass

    def close(self):
        pass


class Model(torch.nn.Linear):
    def save_pretrained(self, path):
        path.mkdir()
        torch.save(self.state_dict(), path / "weights.pt")


class Policy(PolicyModule):
    """Everything but a language model; subclasses say what a step is."""

    def __init__(self, folder, *, lr=0.1, **options):
        super().__init__(
            model_path=folder, reference_path=folder,
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=lr), **options,
        )  # fmt: skip

    def configure_model(self):
        self.model = Model(1, 1)

    def on_fit_start(self):
        pass

    def score_old(self, batch):
        return batch


class Interrupting(RolloutListener):
    """Raises Ctrl-C after as many updates as asked, or before one is done."""

    def __init__(self, interrupt_after=-1, interrupt_in_update=-1):
        self.interrupt_after, self.interrupt_in_update = interrupt_after, interrupt_in_update

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if pl_module.policy_version == self.interrupt_in_update:
            raise KeyboardInterrupt

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if pl_module.policy_version == self.interrupt_after:
            raise KeyboardInterrupt


def train(
    folder, policy, method, service, watch, *, num_prompts=0, grader=None, every_n_steps=1, resume=False, listed=None,
    source=None, **data,
):  # fmt: skip
    """Train to the end, or to what ``watch`` interrupts, which leaves a checkpoint; returns the trainer.

    On ``num_prompts`` prompts, on those that are ``listed``, or on those of a ``source`` whose texts are numbers.
    """
    module = RolloutDataModule(source=source, max_prompt_tokens=8, seed=0, **data)
    if source is None:
        module.train_prompts = prompts(num_prompts) if listed is None else listed
    else:
        module.encode_prompts(NumberTokenizer())
        method.check_prompts(module.listed_prompts)
    checkpoint = RolloutCheckpoint(run_dir=folder, tokenizer=TOKENIZER, every_n_steps=every_n_steps)
    sampling = AdaptiveSampling(
        method, service=service, grader=grader or Grader(), tokenizer=TOKENIZER, eos_token_ids=[0], run_dir=folder
    )
    watch.sampling = sampling
    trainer = Trainer(
        accelerator="cpu", max_epochs=1, enable_progress_bar=False, enable_model_summary=False, logger=False,
        enable_checkpointing=False, default_root_dir=folder, callbacks=[sampling, checkpoint, watch],
    )  # fmt: skip
    last = folder / "checkpoints/last/trainer.ckpt"
    try:
        trainer.fit(policy, datamodule=module, ckpt_path=last if resume else None)
    except (KeyboardInterrupt, SystemExit):
        assert max(watch.interrupt_after, watch.interrupt_in_update) > 0
        checkpoint.save(trainer, policy)
    return trainer
