"""One log, written as each trainer would write it. Layouts as read in the releases that the readers name."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ada_lightning.audit.records import Row


def words(row: Row) -> str:
    """A text of as many words as the response has tokens."""
    return " ".join("x" * (row.num_tokens or 0))


def prompt_text(row: Row) -> str:
    """The prompt of a response."""
    return f"What is {row.prompt_key} + 1?"


def write_trl(rows: Sequence[Row], folder: Path) -> None:
    """``completions/completions_<step>.parquet``, with the columns by which ``log_extra`` closes holes."""
    import pandas as pd

    (folder / "completions").mkdir(parents=True)
    for step, group in _steps(rows):
        table = {
            "step": [row.step for row in group],
            "prompt": [[{"role": "user", "content": prompt_text(row)}] for row in group],
            "completion": [[{"role": "assistant", "content": words(row)}] for row in group],
            "accuracy": [row.reward for row in group],
            "is_truncated": [row.is_truncated for row in group],
            "num_tokens": [row.num_tokens for row in group],
            "policy_version": [row.policy_version for row in group],
            "advantage": [row.advantage for row in group],
        }
        pd.DataFrame(table).to_parquet(folder / "completions" / f"completions_{step:05d}.parquet")


def write_verl(rows: Sequence[Row], folder: Path) -> None:
    """``<step>.jsonl`` of the trainer of verl 0.9.1, a row that fills the batch at the end of each."""
    for step, group in _steps(rows):
        lines = [
            {
                "input": prompt_text(row),
                "output": words(row),
                "gts": str(row.prompt_key),
                "score": row.reward,
                "step": row.step,
                "uid": f"{step}-{row.group_key}_{row.sample_index}_0",
            }
            for row in group
        ]
        lines.append(lines[0] | {"uid": "pad-0_0_0"})
        _lines(folder / f"{step}.jsonl", lines)


def write_tinker(rows: Sequence[Row], folder: Path) -> None:
    """``iteration_<n>/train_rollout_summaries.jsonl``, schema 1, prompts named by a tag; two turns a trajectory."""
    for step, group in _steps(rows):
        lines = []
        for row in group:
            tokens = row.num_tokens or 0
            turns = [(row.num_prompt_tokens, tokens // 2, "stop"), (40, tokens - tokens // 2, _finish(row))]
            lines.append(
                {
                    "schema_version": 1,
                    "split": "train",
                    "iteration": step,
                    "group_idx": int(row.group_key),
                    "traj_idx": row.sample_index,
                    "tags": ["sums", f"prompt_id={row.prompt_key}"],
                    "sampling_client_step": row.policy_version,
                    "total_reward": row.reward,
                    "final_reward": 0.0,
                    "trajectory_metrics": {},
                    "steps": [
                        {"step_idx": index, "ob_len": seen, "ac_len": made, "reward": 0.0, "stop_reason": stop}
                        for index, (seen, made, stop) in enumerate(turns)
                    ],
                    "final_ob_len": 0,
                }
            )
        _lines(folder / f"iteration_{step:06d}" / "train_rollout_summaries.jsonl", lines)
        _lines(folder / f"iteration_{step:06d}" / "eval_rollout_summaries.jsonl", [lines[0] | {"split": "eval/sums"}])


def write_slime(rows: Sequence[Row], folder: Path) -> None:
    """``rollout_data/<id>.pt``: samples as records of plain values and tensors."""
    import torch

    (folder / "rollout_data").mkdir(parents=True)
    for step, group in _steps(rows):
        samples: list[dict[str, Any]] = [
            {
                "group_index": int(row.group_key),
                "index": row.sample_index,
                "prompt": prompt_text(row),
                "label": str(row.prompt_key),
                "tokens": torch.zeros((row.num_tokens or 0) + 7, dtype=torch.int64),
                "response": words(row),
                "response_length": row.num_tokens,
                "loss_mask": [1] * (row.num_tokens or 0),
                "reward": row.reward,
                "status": "truncated" if row.is_truncated else "completed",
                "weight_versions": [str(row.policy_version)],
                "remove_sample": False,
                "metadata": {},
            }
            for row in group
        ]
        torch.save({"rollout_id": step, "samples": samples}, folder / "rollout_data" / f"{step}.pt")
        torch.save({"rollout_id": step, "samples": samples[:1]}, folder / "rollout_data" / f"eval_{step}.pt")


def write_verifiers(rows: Sequence[Row], folder: Path) -> None:
    """``rollouts/step_<n>/train/all/traces.jsonl``: an episode a line, and an agent whose tokens do not train."""
    for step, group in _steps(rows):
        lines = []
        for index, row in enumerate(group):
            task = {"type": "Sum", "data": {"question": prompt_text(row)}, "key": str(row.prompt_key)}
            nodes = [
                {"message": {"role": "user", "content": prompt_text(row)}, "mask": [False] * 7},
                {
                    "parent": 0,
                    "sampled": True,
                    "mask": [False] + [True] * (row.num_tokens or 0),
                    "advantages": [row.advantage],
                },
            ]
            trace = {
                "version": 1,
                "task": task,
                "agent": {"name": "solver", "trainable": True},
                "nodes": nodes,
                "calls": [{"node": 1, "finish_reason": _finish(row)}],
                "rewards": {"accuracy": {"score": 2 * (row.reward or 0.0), "weight": 0.5}},
            }
            judge = trace | {"agent": {"name": "judge", "trainable": False}}
            work = {"type": "train", "step": step, "policy": {"start": row.policy_version, "end": row.policy_version}}
            lines.append(
                {
                    "id": f"{step}-{index}",
                    "task": task,
                    "group": {"id": f"{step}-{row.group_key}"},
                    "run": {"type": "train", "id": "r", "work": work},
                    "ok": True,
                    "traces": [judge, trace],
                }
            )
        for subset in ("all", "effective"):
            _lines(folder / "rollouts" / f"step_{step}" / "train" / subset / "traces.jsonl", lines)


def write_run_folder(rows: Sequence[Row], folder: Path) -> None:
    """A run's folder of this project: ``config.yaml``, ``prompts.csv`` and ``responses/train``."""
    import pandas as pd

    (folder / "responses" / "train").mkdir(parents=True)
    sampler = "ada_lightning.methods.sampling.UniformSampler"
    (folder / "config.yaml").write_text(f"sampler:\n  _target_: {sampler}\n  group_size: 16\n")
    with (folder / "prompts.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "slot", "num_sampled"])
        writer.writerows(
            [step, key, len(list(of))] for (step, key), of in groupby(rows, lambda r: (r.step, r.group_key))
        )
    for step, group in _steps(rows):
        table = {
            "step": [row.step for row in group],
            "policy_version": [row.policy_version for row in group],
            "slot": [int(row.group_key) for row in group],
            "prompt_id": [row.prompt_key for row in group],
            "sample_index": [row.sample_index for row in group],
            "round": [0 for _ in group],
            "reward": [row.reward for row in group],
            "is_positive": [row.reward == 1.0 for row in group],
            "is_kept": [True for _ in group],
            "advantage": [row.advantage for row in group],
            "components": ["{}" for _ in group],
            "finish_reason": [_finish(row) for row in group],
            "num_tokens": [row.num_tokens for row in group],
            "text": [words(row) for row in group],
        }
        pd.DataFrame(table).to_parquet(folder / "responses" / "train" / f"step_{step:06d}.parquet")


WRITERS = {
    "ada": write_run_folder,
    "trl": write_trl,
    "verl": write_verl,
    "tinker": write_tinker,
    "slime": write_slime,
    "verifiers": write_verifiers,
}
"""By the name of the reader."""


def write_word_tokenizer(path: Path) -> None:
    """Write a ``tokenizer.json`` that counts words: what a log without token counts is counted with."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    tokenizer = Tokenizer(WordLevel({"x": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(path))


def _steps(rows: Sequence[Row]) -> Iterable[tuple[int, list[Row]]]:
    return ((step, list(group)) for step, group in groupby(rows, key=lambda row: row.step))


def _finish(row: Row) -> str:
    return "length" if row.is_truncated else "stop"


def _lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
