"""Makes the three logs that docs/audit.md shows: ``python -m research.audit.logs trl|ours|verl``.

TRL's and ours are real runs of the field's model (0.15 million parameters, research/studies/field) on its sums, on a
CPU in a few minutes; verl's is a synthetic dump, since its trainer needs accelerators. They go to ``runs/audit``.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from typing import Any

from research.audit.synthetic import Population, draw
from research.audit.writers import write_verl, write_word_tokenizer
from research.studies.field.sums import write
from research.studies.runs import ROOT

FOLDER = ROOT / "runs" / "audit"
MODEL = ROOT / "research" / "studies" / "field" / "model"
NUM_PROMPTS, PROMPTS_PER_STEP, NUM_STEPS, GROUP_SIZE = 96, 48, 6, 16
LEARNING_RATE = 1e-4


def main() -> None:
    """Make one of the logs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", choices=["trl", "ours", "verl"])
    parser.add_argument("--steps", type=int, default=NUM_STEPS)
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    {"trl": make_trl, "ours": make_ours, "verl": make_verl}[arguments.log](arguments.steps)


def make_verl(num_steps: int) -> None:
    """Write a dump of a population that resembles a run: 200 prompts, groups of 8."""
    folder = FOLDER / "verl"
    write_verl(draw(Population(num_prompts=200, num_steps=num_steps, group_size=8), seed=0).rows, folder)
    write_word_tokenizer(folder / "tokenizer.json")


def make_ours(num_steps: int) -> None:
    """Run ``experiment=grpo_n16`` with a response log of every response."""
    problems = FOLDER / "problems.jsonl"
    write(problems, size=NUM_PROMPTS + 32, seed=1)
    command = [
        *("+experiment=grpo_n16", "model=pretrained", f"model.path={MODEL.relative_to(ROOT)}", "data=jsonl"),
        f"data.source.path={problems.relative_to(ROOT)}",
        *("data.source.num_heldout=32", "reward=exact_match", "data.max_prompt_tokens=72"),
        *("rollout.sampling.max_new_tokens=56", "rollout.max_model_tokens=128"),
        *("rollout.engine.dtype=float32", "rollout.engine.kv_cache_gib=0.25"),
        *(
            f"data.prompts_per_step={PROMPTS_PER_STEP}",
            f"num_steps={num_steps}",
            f"optimizer.lr={LEARNING_RATE:g}",
            "logger=csv",
        ),
        *("callbacks.response_log.every_n_steps=1", "callbacks.response_log.max_prompts=inf"),
        *("~callbacks.preview", "~callbacks.sample_page"),
        f"run_dir={(FOLDER / 'ours').relative_to(ROOT)}",
    ]
    subprocess.run([sys.executable, "train.py", *command], cwd=ROOT, check=True)


def make_trl(num_steps: int) -> None:
    """Run TRL's GRPOTrainer, with a reward function that closes the holes of its log."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    problems = FOLDER / "problems_trl.jsonl"
    write(problems, size=NUM_PROMPTS, seed=1)
    lines = [json.loads(line) for line in problems.read_text().splitlines()]
    rows = [
        {"prompt": [{"role": "user", "content": line["prompt"]}], "answer": line["answer"], "prompt_id": str(number)}
        for number, line in enumerate(lines)
    ]
    arguments = GRPOConfig(
        output_dir=str(FOLDER / "trl"),
        use_cpu=True,
        bf16=False,
        max_steps=num_steps,
        per_device_train_batch_size=PROMPTS_PER_STEP * GROUP_SIZE,
        num_generations=GROUP_SIZE,
        max_completion_length=56,
        learning_rate=LEARNING_RATE,
        log_completions=True,
        num_completions_to_print=0,
        logging_steps=1,
        eval_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    rewards: list[Any] = [accuracy, record]  # a list of floats is none of floats and None to mypy
    trainer = GRPOTrainer(
        model=str(MODEL),
        reward_funcs=rewards,
        args=arguments,
        train_dataset=Dataset.from_list(rows),
    )
    trainer.train()


def accuracy(completions: Any, answer: list[str], **_: Any) -> list[float]:
    """1 where the last number of a completion is the answer."""
    texts = [completion[0]["content"] for completion in completions]
    numbers = [re.findall(r"-?\d+", text) for text in texts]
    return [float(bool(found) and found[-1] == truth) for found, truth in zip(numbers, answer, strict=True)]


def record(completion_ids: Any, prompt_id: list[str], log_extra: Any, trainer_state: Any, **_: Any) -> list[None]:
    """Close the holes of TRL's log: token counts, end reasons, ids of prompts and the policy's version; no reward."""
    limit = 56  # max_completion_length
    log_extra("num_tokens", [len(ids) for ids in completion_ids])
    log_extra("is_truncated", [len(ids) >= limit for ids in completion_ids])
    log_extra("prompt_id", prompt_id)
    log_extra("policy_version", [trainer_state.global_step] * len(completion_ids))
    return [None] * len(completion_ids)


if __name__ == "__main__":
    main()
