"""A training run of two parameters that drives callbacks and loggers as a real one does."""

from dataclasses import dataclass, replace

import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule

from ada_lightning.callbacks.rollout_listener import RolloutListener
from ada_lightning.core.records import KeptResponse, Prompt, ResponseGroup, ResponsePool
from ada_lightning.core.step_records import EvaluationResult, RolloutResult, RolloutStats
from ada_lightning.run.phase_clock import PhaseClock
from tests.builders import make_response


def make_group(prompt_id: str, rewards: list[float], num_kept: int) -> ResponseGroup:
    pool = ResponsePool(Prompt(prompt_id, ({"role": "user", "content": f"question {prompt_id}"},)), slot=0)
    for index, reward in enumerate(rewards):
        response = make_response(index, reward, prompt_id=prompt_id)
        pool.add(replace(response, text=f"answer {index} — ü", is_truncated=index == 1))
    return ResponseGroup(
        pool,
        tuple(KeptResponse(response, 1.0, advantage=response.reward - 0.5) for response in pool.responses[:num_kept]),
    )


STATS = RolloutStats(
    num_drawn=4, num_failed=1, generated_tokens=8, wasted_tokens=2, failures={"timeout": 1}
)  # fmt: skip


def make_rollout(step: int, groups: tuple[ResponseGroup, ...] = ()) -> RolloutResult:
    groups = groups or (make_group("p", [1.0, 0.0], 2), make_group("q", [0.0, 0.0], 2))
    return RolloutResult(step, step, groups, STATS)


@dataclass
class Batch:
    update_index: int


class Policy(LightningModule):
    """Two parameters, and the attributes that callbacks use."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))
        self.clock = PhaseClock()
        self.policy_version = 0

    def training_step(self, batch, batch_idx):
        with self.clock.phase("update"):
            loss = (self.weight - 1).square().sum()
        self.log("train/loss", loss)
        return loss

    def on_train_batch_end(self, *args):
        self.policy_version += 1

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Leader:
    """All that a callback asks of a trainer which only writes files."""

    is_global_zero = True
    loggers = ()


class Data(LightningDataModule):
    heldout_changed = False

    def __init__(self, num_steps=3, updates_per_rollout=1, fail_at=-1, error=None, first_step=0):
        super().__init__()
        self.num_steps, self.updates_per_rollout = num_steps, updates_per_rollout
        self.fail_at, self.error, self.first_step = fail_at, error, first_step

    def train_dataloader(self):
        return Stream(self)

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        return batch


class Stream:
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return (self.data.num_steps - self.data.first_step) * self.data.updates_per_rollout

    def __iter__(self):
        data = self.data
        for step in range(data.first_step, data.num_steps):
            if step == data.fail_at:
                raise data.error
            trainer = data.trainer
            with trainer.lightning_module.clock.phase("rollout"):
                trainer.lightning_module.clock.report(1, 4)
            tell(trainer, "on_rollout_end", make_rollout(step))
            for index in range(data.updates_per_rollout):
                yield Batch(index)


def tell(trainer, hook, result):
    for callback in trainer.callbacks:
        if isinstance(callback, RolloutListener):
            getattr(callback, hook)(trainer, trainer.lightning_module, result)


class Driver(Callback):
    """Logs and evaluates as the real callbacks do."""

    def __init__(self, scores=(0.05, 0.56)):
        self.scores = scores

    def on_train_start(self, trainer, pl_module):
        if self.scores[0] is not None:
            self.evaluate(trainer, self.scores[0])

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        figures = {
            "rollout/reward_first_round": 0.5,
            "rollout/signal_ratio": 0.5,
            "rollout/num_sampled": 4.0,
            "time/rollout_s": 9.8,
            "time/update_s": 7.1,
        }
        pl_module.log_dict(figures)
        if batch.update_index == trainer.datamodule.updates_per_rollout - 1:
            tell(trainer, "on_step_end", figures | {"train/loss": float(outputs["loss"])})

    def on_train_end(self, trainer, pl_module):
        self.evaluate(trainer, self.scores[1])

    def evaluate(self, trainer, score):
        module = trainer.lightning_module
        metrics = {"eval/avg_at_4": score}
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=module.policy_version)
        step = module.policy_version // trainer.datamodule.updates_per_rollout
        tell(trainer, "on_evaluation_end", EvaluationResult(module.policy_version, step, (), metrics, is_final=False))
