"""A run of TRL's trainer on the field's sums: ``python -m research.studies.trl_run --method ada --folder FOLDER``.

The method ``trl`` is the trainer alone, at its own defaults but for the number of generations; any other is one of
``conf/experiment`` through :class:`~ada_lightning.adapters.trl.AdaRollouts`. Both are fed and graded by the same
function, which counts what was generated, and are evaluated alike; the learning rate is constant in both. Seconds are
of the processor, one thread, without evaluations, so other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from ada_lightning.adapters.trl import AdaRollouts
from ada_lightning.run.files import replacing
from research.audit.logs import accuracy
from research.studies.field.setting import HELDOUT, TRAIN, prepare
from research.studies.field.warm_start import MODEL

ALONE = "trl"
GROUP_SIZE = 4
MAX_NEW_TOKENS = 56
HELD_OUT_PROMPTS, HELD_OUT_SAMPLES = 128, 4


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and write the learning curve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", required=True, help=f"{ALONE}, or a name of conf/experiment")
    parser.add_argument("--folder", type=Path, required=True, help="of the result")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--prompts", type=int, default=8, help="of a step")
    parser.add_argument("--max-tokens", type=int, default=120_000, help="generated in all")
    parser.add_argument("--points", type=int, default=6, help="evaluations on the way")
    options = parser.parse_args(arguments)
    prepare()
    torch.set_num_threads(1)
    curve = train(options)
    with replacing(options.folder / "result.json") as file:
        file.write_text(json.dumps({"curve": curve}))


def train(options: argparse.Namespace) -> list[dict[str, float]]:
    """Return the learning curve, in the rows of :func:`~research.studies.runs.cost_curve`."""
    meter = Meter()
    rows = _rows(TRAIN)
    settings: dict[str, Any] = {
        "output_dir": str(options.folder),
        "seed": options.seed,
        "learning_rate": options.lr,
        "lr_scheduler_type": "constant",
        "max_steps": 100_000,
        "max_completion_length": MAX_NEW_TOKENS,
        "gradient_checkpointing": False,
        **{"use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no", "logging_strategy": "no"},
        "disable_tqdm": True,
    }
    if options.method == ALONE:
        settings |= {"num_generations": GROUP_SIZE, "per_device_train_batch_size": options.prompts * GROUP_SIZE}
        given: dict[str, Any] = {"train_dataset": Dataset.from_list(rows), "reward_funcs": [meter.grade]}
    else:
        ada = AdaRollouts(
            options.method,
            rows,
            reward=meter.grade,
            num_prompts=options.prompts,
            seed=options.seed,
            group_size=GROUP_SIZE,
        )
        all_rows = options.prompts * (ada.core.max_kept + 1)
        settings |= ada.config(rows_per_device=all_rows)
        given = ada.trainer_arguments()
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(MODEL, padding_side="left", trust_remote_code=False)
    trainer = GRPOTrainer(model=model, args=GRPOConfig(**settings), processing_class=tokenizer, **given)
    curve = Curve(meter, HeldOut(tokenizer, options.seed), options.max_tokens, options.points)
    trainer.add_callback(curve)
    trainer.train()
    return curve.rows


class Meter:
    """Grades responses as TRL's reward functions do, and counts them: each one once, in both ways."""

    def __init__(self) -> None:
        self.responses = 0
        self.tokens = 0

    def grade(self, completions: Any, completion_ids: Any, answer: list[str], **columns: Any) -> list[float]:
        """1 where the last number of a completion is the answer."""
        self.responses += len(completion_ids)
        self.tokens += sum(map(len, completion_ids))
        return accuracy(completions, answer)


class HeldOut:
    """Draws held-out problems of a seed, the same at every evaluation, without moving the run's own generator."""

    def __init__(self, tokenizer: Any, seed: int) -> None:
        rows = random.Random(seed).sample(_rows(HELDOUT), HELD_OUT_PROMPTS)
        self._tokenizer, self._seed = tokenizer, seed
        self._answers = [row["answer"] for row in rows for _ in range(HELD_OUT_SAMPLES)]
        prompts = [row["prompt"] for row in rows for _ in range(HELD_OUT_SAMPLES)]
        self._inputs = tokenizer.apply_chat_template(
            prompts, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
        )

    @torch.no_grad()
    def rate(self, model: Any, updates: int) -> float:
        """Share of right responses, at temperature 1."""
        ids, mask = self._inputs["input_ids"], self._inputs["attention_mask"]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1_000_003 * self._seed + updates)
            drawn = model.generate(
                input_ids=ids,
                attention_mask=mask,
                **{"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0},
                max_new_tokens=MAX_NEW_TOKENS,
            )
        texts = self._tokenizer.batch_decode(drawn[:, ids.shape[1] :], skip_special_tokens=True)
        rights = accuracy([[{"role": "assistant", "content": text}] for text in texts], self._answers)
        return sum(rights) / len(rights)


class Curve(TrainerCallback):
    """Evaluates at equal shares of the budget of generated tokens, and ends the run there."""

    def __init__(self, meter: Meter, held_out: HeldOut, max_tokens: int, points: int) -> None:
        self.rows: list[dict[str, float]] = []
        self._meter, self._held_out = meter, held_out
        self._at = [max_tokens * point // points for point in range(points + 1)]
        self._evaluating = 0.0
        self._started = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        """Evaluate the model that training starts from."""
        self._started = time.process_time()
        self._evaluate(model, state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        """Evaluate where a share of the budget was passed, and stop at its end."""
        if self._meter.tokens >= self._at[0]:
            self._evaluate(model, state.global_step)
        control.should_training_stop = not self._at

    def _evaluate(self, model: Any, updates: int) -> None:
        begun = time.process_time()
        costs = {
            "updates": float(updates),
            "responses": float(self._meter.responses),
            "generated_tokens": float(self._meter.tokens),
            "seconds": round(begun - self._started - self._evaluating, 3),
        }
        self.rows.append(costs | {"held_out": self._held_out.rate(model, updates)})
        self._at = [tokens for tokens in self._at if tokens > self._meter.tokens]
        self._evaluating += time.process_time() - begun


def _rows(path: Path) -> list[dict[str, Any]]:
    """Problems in TRL's format."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{"prompt": [{"role": "user", "content": line["prompt"]}], "answer": line["answer"]} for line in lines]


if __name__ == "__main__":
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    main()
