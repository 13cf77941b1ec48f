"""Keeps sampled responses where a person can read them: in the run folder and in MLflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.run.run_dir import RunDir
from callbacks.rollout_listener import RolloutListener

if TYPE_CHECKING:
    from ada_lightning.core.records import ResponseGroup
    from ada_lightning.core.result import RolloutResult


class RolloutTable(RolloutListener):
    """Writes a table of prompts and responses, with what each one was worth, to ``rollouts/step_<n>.jsonl``.

    Prompts with a training signal come first, in the step's order, so that the table shows what the policy learns from.
    A file is written once: a step that a resumed run repeats replaces the file of the lost attempt.

    Args:
        run_dir: folder of the run.
        every_n_steps: steps 0, n, 2n ... are kept; a step is named by the rollout steps before it.
        max_prompts: most prompts per table, each with all of its responses.

    Raises:
        ValueError: a number below 1.
    """

    def __init__(self, *, run_dir: str | Path, every_n_steps: int = 5, max_prompts: int = 4) -> None:
        errors = [
            f"{name} must be at least 1; got {value}; to keep no table, leave the callback out: "
            "~callbacks.rollout_table"
            for name, value in (("every_n_steps", every_n_steps), ("max_prompts", max_prompts))
            if value < 1
        ]
        if errors:
            raise ValueError("; ".join(errors))
        self.folder = RunDir(run_dir).path / "rollouts"
        self.every_n_steps = every_n_steps
        self.max_prompts = max_prompts

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Write the table of this step."""
        if result.step % self.every_n_steps or not trainer.is_global_zero:
            return
        groups = sorted(result.groups, key=lambda group: not group.has_signal)[: self.max_prompts]
        step = result.step
        rows = [row for group in groups for row in _rows(step, group)]
        if not rows:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        temporary = self.folder / f".step_{step:06d}.tmp"
        temporary.write_text(lines, encoding="utf-8")
        temporary.replace(self.folder / f"step_{step:06d}.jsonl")


def _rows(step: int, group: ResponseGroup) -> list[dict[str, Any]]:
    advantages = {kept.response.sample_index: kept.advantage for kept in group.kept}
    prompt = group.pool.prompt
    question = "\n".join(f"{message['role']}: {message['content']}" for message in prompt.messages)
    return [
        {
            "step": step,
            "prompt": question,
            "response": response.text,
            "reward": response.reward,
            "kept": response.sample_index in advantages,
            "advantage": advantages.get(response.sample_index, 0.0),
            "truncated": response.is_truncated,
            "prompt_id": prompt.prompt_id,
            "sample_index": response.sample_index,
        }
        for response in group.pool.responses
    ]
