"""A real GRPOTrainer on a tiny model and scripted responses, and what its gradient must be.

Run as a program, it prints the relative difference between the two as JSON; ``torchrun`` runs it in several processes.
"""

from __future__ import annotations

import json
import os
import random
import string
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from ada_lightning.adapters.trl import AdaRollouts
from ada_lightning.training.models.tiny import TinyLlama

if TYPE_CHECKING:
    from peft import LoraConfig

MAX_TOKENS = 8
END = 2
"""Id of the token that ends a turn (:mod:`ada_lightning.training.models.tiny`)."""
NUM_PROMPTS = 4
ROWS = [{"prompt": f"Question {number}: what is {number} + {number}?", "answer": str(number)} for number in range(12)]


def model_folder() -> Path:
    """A tiny Llama with a byte tokenizer."""
    return TinyLlama(hidden_size=64, num_layers=2, num_heads=2).prepare()


def sample(prompt_ids: Sequence[list[int]], seeds: Sequence[int]) -> list[tuple[list[int], None]]:
    """Responses of 1 to 8 letters; how often the first is ``y`` depends on the prompt."""
    letters, found = _letters(), []
    for ids, seed in zip(prompt_ids, seeds, strict=True):
        generator = random.Random(seed)
        first = "y" if generator.random() < (1 + sum(ids) % 5) / 7 else "n"
        rest = [letters[letter] for letter in generator.choices(sorted(letters), k=generator.randrange(MAX_TOKENS - 1))]
        found.append(([letters[first], *rest, END], None))
    return found


@cache
def _letters() -> dict[str, int]:
    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    return {letter: tokenizer(letter)["input_ids"][0] for letter in string.ascii_lowercase}


def reward(completions: Sequence[str], answer: Sequence[str], **others: Any) -> list[float]:
    """Whether it begins with a ``y``; the reference arrives with its own response."""
    assert all(reference.isdigit() for reference in answer)
    return [float(text.startswith("y")) for text in completions]


def rollouts(method: str, **options: Any) -> AdaRollouts:
    """Of the world's rows."""
    given = {"reward": reward, "num_prompts": NUM_PROMPTS, "seed": 3, "sample": sample}
    return AdaRollouts(method, ROWS, **(given | options))


def trainer_of(
    ada: AdaRollouts,
    *,
    num_processes: int = 1,
    callbacks: Sequence[Any] = (),
    adapters: LoraConfig | None = None,
    **config: Any,
) -> GRPOTrainer:
    """The trainer, in single precision, with plain gradient steps; of adapters alone where they are given."""
    arguments = ada.trainer_arguments()
    arguments["callbacks"] += list(callbacks)
    trainer = _trainer(ada.config(num_processes=num_processes) | config, peft_config=adapters, **arguments)
    if adapters:
        write_adapters(trainer.model)
    return trainer


def adapted(model: Any, adapters: LoraConfig) -> Any:
    """The model with adapters whose weights matter, in its own precision."""
    from peft import get_peft_model

    dtype, model = model.dtype, get_peft_model(model, adapters)
    write_adapters(model)
    return model.to(dtype)


def write_adapters(model: Any) -> None:
    """Give adapters weights that matter: peft begins with products that are 0."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = 0.1 * torch.randn(parameter.shape, generator=generator).to(parameter)


def plain_trainer(
    rows: list[dict[str, Any]], reward_funcs: list[Any], *, rollout_func: Any = None, **config: Any
) -> GRPOTrainer:
    """TRL's trainer without the adapter, its advantages not divided by anything."""
    shape = {"per_device_train_batch_size": len(rows) * config["num_generations"], "shuffle_dataset": False}
    return _trainer(
        {"scale_rewards": "none"} | shape | config,
        train_dataset=Dataset.from_list(rows),
        reward_funcs=reward_funcs,
        rollout_func=rollout_func,
    )


def _trainer(config: dict[str, Any], **arguments: Any) -> GRPOTrainer:
    folder = model_folder()
    given: dict[str, Any] = {
        "output_dir": tempfile.mkdtemp(), "use_cpu": True, "bf16": False, "seed": 0, "max_steps": 1,
        "gradient_checkpointing": False, "max_completion_length": MAX_TOKENS, "learning_rate": 1e-2, "optim": "sgd",
        "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "save_strategy": "no", "report_to": "none",
        "logging_steps": 1, "disable_tqdm": True,
    }  # fmt: skip
    return GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        args=GRPOConfig(**(given | config)),
        processing_class=AutoTokenizer.from_pretrained(folder),
        **arguments,
    )


class Gradient(TrainerCallback):
    """Keeps the gradient that the optimiser is about to take."""

    def __init__(self) -> None:
        self.value = torch.zeros(0)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        self.value = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).clone()


def closed_form(method: str, *, adapters: LoraConfig | None = None, **options: Any) -> tuple[torch.Tensor, list[int]]:
    """Gradient of the loss, minus the sum of advantage times log-probability over the denominator, in double precision.

    Returns:
        The gradient, and how many rows each prompt keeps.
    """
    ada = rollouts(method, **options)
    core, rows = ada.core, ada.rows
    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    model = AutoModelForCausalLM.from_pretrained(model_folder(), dtype=torch.float64)
    if adapters:
        model = adapted(model, adapters)
    pools = core.choose(NUM_PROMPTS)
    ids = {pool.prompt_id: tokenizer(rows.by_id[pool.prompt_id]["prompt"])["input_ids"] for pool in pools}
    while waiting := [pool for pool in pools if pool.want()]:
        for pool in waiting:
            for index in pool.launch(pool.want()):
                ((tokens, _),) = sample([ids[pool.prompt_id]], [pool.seed(index)])
                text = tokenizer.decode(tokens, skip_special_tokens=True)
                pool.add(index, float(text.startswith("y")), num_tokens=len(tokens), payload=tokens)
    loss = torch.zeros((), dtype=torch.float64)
    for pool in pools:
        for row in pool.kept():
            prompt, tokens = ids[pool.prompt_id], row.payload
            logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
            logprobs = logits.log_softmax(-1)[torch.arange(len(tokens)), torch.tensor(tokens)]
            loss = loss - row.advantage * logprobs.sum() / core.denominator(max_tokens=MAX_TOKENS)
    loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    return gradient, [len(pool.kept()) for pool in pools]


def most_likely(adapters: LoraConfig | None) -> Callable[[list[int]], int]:
    """What says the most likely token after a prompt, of the model as it begins."""
    model: Any = AutoModelForCausalLM.from_pretrained(model_folder(), dtype=torch.float32)
    if adapters:
        model = adapted(model, adapters)
    model.eval()
    return lambda ids: int(model(torch.tensor([ids])).logits[0, -1].argmax())


def difference(
    method: str,
    *,
    num_processes: int = 1,
    config: dict[str, Any] | None = None,
    adapters: LoraConfig | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Norm of the difference over the norm of the closed form, after one step of the real trainer."""
    wanted, kept = closed_form(method, adapters=adapters, **options)
    gradient = Gradient()
    ada = rollouts(method, **options)
    trainer_of(ada, num_processes=num_processes, callbacks=[gradient], adapters=adapters, **(config or {})).train()
    found = gradient.value.double()
    return {"relative": float((found - wanted).norm() / wanted.norm()), "norm": float(wanted.norm()), "kept": kept}


if __name__ == "__main__":
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    result = difference(sys.argv[1], num_processes=int(os.environ.get("WORLD_SIZE", "1")), n_max=8)
    if os.environ.get("RANK", "0") == "0":
        print("RESULT", json.dumps(result))
