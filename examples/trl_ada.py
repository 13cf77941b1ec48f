"""Adaptive sampling in TRL's GRPOTrainer: ``python examples/trl_ada.py``, on a CPU in minutes.

GRPO on chosen prompts unless ``--method`` names another; ``docs/trl.md`` explains it.

In several processes: ``torchrun --nproc_per_node 2 examples/trl_ada.py --num-processes 2``.
"""

from __future__ import annotations

import argparse
import random
import re
import warnings
from typing import Any

warnings.filterwarnings("ignore", message="TRL currently supports vLLM")  # which generates nothing here

from transformers import AutoTokenizer  # noqa: E402 - each of TRL's modules warns as it is imported
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

from ada_lightning.adapters.trl import AdaRollouts  # noqa: E402
from ada_lightning.training.models.wheel import SmolLM2Wheel  # noqa: E402


def additions(number: int, seed: int = 0) -> list[dict[str, Any]]:
    """Make a data set in TRL's format: a prompt, and a column for the reward."""
    generator = random.Random(seed)
    pairs = generator.sample([(a, b) for a in range(1, 60) for b in range(1, 60)], number)
    return [
        {"prompt": [{"role": "user", "content": f"Calculate {a} + {b}. Answer with a number."}], "answer": str(a + b)}
        for a, b in pairs
    ]


def is_right(completions: list[Any], answer: list[str], **columns: Any) -> list[float]:
    """Grade as any reward function of TRL's does: 1 where the last number is the answer."""
    texts = [completion[0]["content"] for completion in completions]
    return [float(re.findall(r"-?\d+", text)[-1:] == [wanted]) for text, wanted in zip(texts, answer, strict=True)]


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default="grpo_chosen", help="a name that `ada describe` lists")
    parser.add_argument("--model", help="path or hub id; SmolLM2-135M-Instruct from a package by default")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--prompts", type=int, default=4, help="of a step, after choosing")
    parser.add_argument("--n-max", type=int, help="most responses of a prompt, for samplers that stop by themselves")
    parser.add_argument("--num-processes", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--output", default="runs/trl_ada")
    arguments = parser.parse_args()
    model = arguments.model or str(SmolLM2Wheel().prepare())

    overrides = {} if arguments.n_max is None else {"n_max": arguments.n_max}
    ada = AdaRollouts(
        arguments.method, additions(500), reward=is_right, num_prompts=arguments.prompts, seed=0, **overrides
    )
    config = GRPOConfig(
        output_dir=arguments.output,
        max_steps=arguments.steps,
        max_completion_length=32,
        learning_rate=1e-5,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_steps=5,
        report_to="none",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        model_init_kwargs={"dtype": "float32"},
        **ada.config(num_processes=arguments.num_processes),
    )
    trainer = GRPOTrainer(
        model=model,
        args=config,
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        **ada.trainer_arguments(),
    )
    trainer.train(resume_from_checkpoint=arguments.resume or None)


if __name__ == "__main__":
    main()
