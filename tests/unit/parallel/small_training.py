"""One or two steps of plain SGD on given rollouts, with any number of processes: what the weights become."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import torch
from lightning.pytorch import Trainer

from ada_lightning.callbacks.checkpoint import InterruptGuard
from ada_lightning.core.records import ResponseGroup
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.parallel.gradients import whole, whole_weights
from ada_lightning.parallel.strategies import ReplicatedStrategy, ShardedStrategy
from ada_lightning.rollout.loop import Loop
from ada_lightning.training.policy import PolicyModule
from tests.builders import random_group as group_of
from tests.builders import weighed
from tests.unit.training.test_policy import QUIET, unloaded


def one_kept(group):
    return ResponseGroup(group.pool, group.kept[:1])


ROLLOUTS = {
    "uneven groups": lambda: [
        group_of(1, [1.0, 0.0, 0.0, 1.0, 0.0], max_length=40),
        group_of(2, [0.0, 1.0]),
        group_of(3, [0.0, 0.0]),
        group_of(4, [1.0, 0.0, 0.0]),
        group_of(5, [0.0, 1.0, 1.0]),
    ],
    "one document": lambda: [group_of(1, [1.0, 0.0])] + [group_of(key, [0.0, 0.0]) for key in (2, 3)],
    "one response": lambda: [one_kept(group_of(1, [1.0, 0.0]))] + [group_of(key, [0.0, 0.0]) for key in (2, 3)],
    "no signal": lambda: [group_of(key, [0.0, 0.0]) for key in (1, 2, 3)],
}


@dataclass
class Outcome:
    gradients: list[dict[str, torch.Tensor]]
    weights: dict[str, torch.Tensor]
    figures: dict[str, float]
    fillers: list[list[bool]]


class GivenLoop(Loop):
    """Trains on a fixed rollout instead of sampling one."""

    def __init__(self, rollout, **parts):
        super().__init__(None, service=SimpleNamespace(max_staleness=0), **parts)
        self.groups = rollout

    def collect(self, number):
        return weighed(self.policy.advantage, ROLLOUTS[self.groups]()), self.policy.policy_version


class GivenRollouts(RolloutDataModule):
    """Streams a fixed rollout."""

    def __init__(self, rollout, *, num_minibatches=1, num_steps=1, max_tokens=64):
        super().__init__(
            source=None, prompts_per_step=3, max_prompt_tokens=32, num_steps=num_steps, seed=0,
            num_minibatches=num_minibatches, max_tokens_per_microbatch=max_tokens,
        )  # fmt: skip
        self.rollout = rollout

    def setup(self, stage):
        policy = self.trainer.lightning_module
        self.connect(GivenLoop(self.rollout, policy=policy, data=self), is_leader=policy.ranks.is_leader)


class RecordingPolicy(PolicyModule):
    """Keeps the whole gradients of every update, before they are clipped."""

    def _finish_gradients(self):
        super()._finish_gradients()
        self.gradients = [
            *getattr(self, "gradients", []),
            {name: whole(p.grad).clone() for name, p in self.model.named_parameters() if p.grad is not None},
        ]


def make_policy(path, *, lr=1.0, kl_coef=0.0, optimizer=torch.optim.SGD, **options):
    options |= {"cls": RecordingPolicy, "loss_options": {"kl_coef": kl_coef}}
    return unloaded(path, optimizer=partial(optimizer, lr=lr), **options)


def run_out_of_memory_once(policy):
    """Let the first backward pass of a policy raise where it has come to the lowest layer."""
    loss, calls = policy.microbatch_loss, []

    def failing(microbatch, batch):
        if not calls:
            calls.append(policy.model.model.layers[0].register_full_backward_pre_hook(fail))
        return loss(microbatch, batch)

    def fail(module, gradients):
        calls[0].remove()
        raise RuntimeError("can't allocate memory")

    policy.microbatch_loss = failing


def make_trainer(
    kind, *, strategy_options=None, precision="32-true", callbacks=(), on_gpu=False, num_processes=2, **options
):
    """So many processes on a CPU; alone, or on a GPU, one."""
    strategy = {"fsdp": ShardedStrategy, "ddp": ReplicatedStrategy, "alone": lambda: "auto"}[kind]
    return Trainer(
        devices=1 if kind == "alone" or on_gpu else num_processes,
        strategy=strategy(**(strategy_options or {})),
        precision=precision,
        callbacks=[InterruptGuard(), *callbacks],
        **QUIET | {"accelerator": "cuda" if on_gpu else "cpu"} | options,
    )


def train(kind, path, rollout, *, num_minibatches=1, num_steps=1, max_tokens=64, strategy_options=None,
          precision="32-true", num_processes=2, has_memory=True, **options):  # fmt: skip
    """Whole gradients and weights, the figures of the last update, and what this process computed."""
    policy = make_policy(path, **options)
    data = GivenRollouts(rollout, num_minibatches=num_minibatches, num_steps=num_steps, max_tokens=max_tokens)
    seen = []
    policy.on_train_batch_start = lambda batch, index: seen.append([m.is_filler for m in batch])
    if not has_memory:
        run_out_of_memory_once(policy)
    trainer = make_trainer(kind, strategy_options=strategy_options, precision=precision, num_processes=num_processes)
    trainer.fit(policy, datamodule=data)
    weights = {name: tensor.clone() for name, tensor in whole_weights(policy.model)}
    return Outcome(policy.gradients, weights, dict(policy.update_metrics), seen)
