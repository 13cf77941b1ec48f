"""What both sides of ``research.benchmarks.step_vs_trl`` share: the task, its sizes, the prompts of every step.

Each side runs in a process of its own and prints one JSON line, ``{"steps": [...]}``, as its last.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))  # read once, when torch is imported

if TYPE_CHECKING:
    from ada_lightning.core.records import Prompt

NUM_PROMPTS, GROUP_SIZE, MAX_NEW_TOKENS, LEARNING_RATE = 16, 4, 48, 1e-5
MAX_PROMPT_TOKENS = 256
CLIP_LOW, CLIP_HIGH, MAX_GRAD_NORM = 0.2, 0.28, 1.0
TASKS = {"chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}}
CONF = Path(__file__).resolve().parents[2] / "conf"


@dataclass(frozen=True, slots=True)
class Work:
    """How much work a step is: prompts, and tokens of the longest response."""

    num_prompts: int = NUM_PROMPTS
    max_new_tokens: int = MAX_NEW_TOKENS

    @property
    def num_responses(self) -> int:
        """Of a step."""
        return self.num_prompts * GROUP_SIZE

    def arguments(self) -> list[str]:
        """Return the command line of either side."""
        return ["--prompts", str(self.num_prompts), "--max-new-tokens", str(self.max_new_tokens)]


def side_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of what both sides are told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prompts", type=int, default=NUM_PROMPTS)
    parser.add_argument("--max-new-tokens", type=int, default=MAX_NEW_TOKENS)
    return parser


def our_overrides(
    *, num_steps: int, seed: int, run_dir: Path, skip_groups_without_signal: bool, work: Work
) -> list[str]:
    """The command line of ``train.py`` that does this work, and nothing that TRL is not asked to do."""
    return [
        "+experiment=grpo",
        f"num_steps={num_steps}",
        f"seed={seed}",
        f"run_dir={run_dir}",
        f"data.prompts_per_step={work.num_prompts}",
        f"data.max_prompt_tokens={MAX_PROMPT_TOKENS}",
        f"data.skip_groups_without_signal={str(skip_groups_without_signal).lower()}",
        f"sampler.group_size={GROUP_SIZE}",
        f"rollout.sampling.max_new_tokens={work.max_new_tokens}",
        f"optimizer.lr={LEARNING_RATE}",
        f"loss.clip_low={CLIP_LOW}",
        f"loss.clip_high={CLIP_HIGH}",
        f"policy.max_grad_norm={MAX_GRAD_NORM}",
        "logger=csv",
        "~callbacks.preview",
        "~callbacks.evaluation",
        "~callbacks.checkpoint",
        "~callbacks.curves",
    ]


def prompts_in_order(tokenizer: Any, *, num_steps: int, seed: int, num_prompts: int) -> list[Prompt]:
    """The prompts that our data module draws for these steps, so that TRL gets the same ones, step by step."""
    from ada_lightning.data.datamodule import RolloutDataModule
    from ada_lightning.data.reasoning_gym import ReasoningGymSource

    data = RolloutDataModule(
        source=ReasoningGymSource(TASKS, num_train=2000, num_heldout=200, seed=seed),
        prompts_per_step=num_prompts,
        max_prompt_tokens=MAX_PROMPT_TOKENS,
        num_steps=num_steps,
        seed=seed,
    )
    data.encode_prompts(tokenizer)
    return [prompt for step in range(num_steps) for prompt in data.step_prompts(step)]


def report_steps(steps: list[dict[str, float]], **about: Any) -> None:
    """Print what the parent process reads."""
    print(json.dumps({"steps": steps, **about}), flush=True)
