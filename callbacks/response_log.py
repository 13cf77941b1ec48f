"""Keeps sampled responses as Parquet files that one line of pandas, pyarrow or DuckDB reads as one table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from lightning.pytorch import LightningModule, Trainer

from ada_lightning.analysis.offline.response_store import prompt_text
from ada_lightning.core.checks import refuse
from ada_lightning.run.files import replacing
from ada_lightning.run.run_dir import RunDir

from .rollout_listener import RolloutListener

if TYPE_CHECKING:
    import pandas as pd

    from ada_lightning.core.records import ResponseGroup
    from ada_lightning.core.step_records import EvaluationResult, RolloutResult

FOLDER = "responses"
"""Name in the run folder."""
COLUMNS = {
    "stage": "string",
    "step": "int64",
    "policy_version": "int64",
    "slot": "int64",
    "task": "string",
    "prompt_id": "string",
    "prompt": "string",
    "sample_index": "int64",
    "round": "int64",
    "reward": "float64",
    "is_positive": "bool",
    "is_kept": "bool",
    "selection_weight": "float64",
    "advantage": "float64",
    "components": "string",
    "answer": "string",
    "finish_reason": "string",
    "num_tokens": "int64",
    "text": "string",
    "turns": "string",
    "ended_by": "string",
    "num_computed": "int64",
}
"""Columns of the files and their Arrow types. :func:`read_responses` says what they mean."""
QUANTILES = (10, 50, 90)
"""Percent of responses that are shorter."""


class ResponseLog(RolloutListener):
    """Writes ``responses/train/step_<n>.parquet`` and ``responses/eval/step_<n>.parquet``; MLflow gets them too.

    Prompts are the first of a step, in its order: a random sample of the data, so that shares counted in them are
    shares of the run. Of each, all responses that count are kept. A file is written once, whole, and compressed: about
    a third of its text. A resumed run deletes the files of the steps that it is about to repeat.

    Args:
        run_dir: folder of the run.
        every_n_steps: rollout steps 0, n, 2n ... are kept; every evaluation is.
        max_prompts: most training prompts per file; ``inf`` keeps all.
        max_heldout_prompts: most held-out prompts per file; ``inf`` keeps all.

    Raises:
        ValueError: a number is below 1, or a count is not whole.
    """

    def __init__(
        self,
        *,
        run_dir: str | Path,
        every_n_steps: int = 5,
        max_prompts: float = 16,
        max_heldout_prompts: float = 64,
    ) -> None:
        sizes = {"every_n_steps": every_n_steps, "max_prompts": max_prompts, "max_heldout_prompts": max_heldout_prompts}
        refuse(
            *(
                f"{name} must be a whole number of at least 1{'' if name == 'every_n_steps' else ' or inf'}; "
                f"got {value}; to keep no responses, leave the callback out: ~callbacks.response_log"
                for name, value in sizes.items()
                if not (value >= 1 and (name != "every_n_steps" if value == math.inf else value == int(value)))
            )
        )
        self.folder = RunDir(run_dir).path / FOLDER
        self.every_n_steps = every_n_steps
        self.max_prompts = max_prompts
        self.max_heldout_prompts = max_heldout_prompts
        self._is_open = False

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Write the responses of this step."""
        if not trainer.is_global_zero:
            return
        if not self._is_open:
            self._drop_repeated(result.step)
            self._is_open = True
        if result.step % self.every_n_steps == 0:
            self._write("train", result, self.max_prompts)

    def on_evaluation_end(self, trainer: Trainer, pl_module: LightningModule, result: EvaluationResult) -> None:
        """Write the responses to held-out prompts."""
        if trainer.is_global_zero:
            self._write("eval", result, self.max_heldout_prompts)

    def _drop_repeated(self, step: int) -> None:
        """An evaluation named by this step came before its rollout, maybe just now."""
        for stage, first in (("train", step), ("eval", step + 1)):
            for path in (self.folder / stage).glob("step_*.parquet"):
                if int(path.stem.removeprefix("step_")) >= first:
                    path.unlink()

    def _write(self, stage: str, result: RolloutResult | EvaluationResult, max_prompts: float) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        of_step = {"stage": stage, "step": result.step, "policy_version": result.policy_version}
        groups = result.groups[: int(min(max_prompts, len(result.groups)))]
        rows = [of_step | row for group in groups for row in _rows(group)]
        if not rows:
            return
        schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])
        target = self.folder / stage / f"step_{result.step:06d}.parquet"
        with replacing(target) as temporary:
            parquet.write_table(pa.Table.from_pylist(rows, schema=schema), temporary, compression="zstd")


def read_responses(run_dir: str | Path, stage: str) -> pd.DataFrame:
    """Read what :class:`ResponseLog` kept; ``pandas.read_parquet("runs/<run>/responses/train")`` does the same.

    ====================  ==============================================================================================
    column                meaning
    ====================  ==============================================================================================
    stage                 ``train`` or ``eval``
    step                  rollout steps before it
    policy_version        updates behind the weights that sampled
    slot                  position of the prompt in the step; a prompt drawn twice has two
    task, prompt_id       as in :class:`~ada_lightning.core.records.Prompt`
    prompt                the chat turns as text
    sample_index, round   launch order in the prompt, and block of ``samples_per_round``, from 0
    reward, is_positive   the verdict
    is_kept               whether it may train
    selection_weight      weight that undoes the selection; missing where not kept
    advantage             missing where not kept and in evaluations
    components            parts of the reward, a JSON object
    answer                what the reward took as the answer; missing where it found none
    finish_reason         ``stop``, or ``length`` where the length limit cut it
    num_tokens            that the model drew
    text                  of the response; the last turn's of an episode
    turns                 of an episode, a JSON list of objects with the model's ``text``, the environment's ``reply``,
                          ``num_calls``, ``num_call_errors``, ``seconds``; missing for a single turn
    ended_by              what ended an episode, see :class:`~ada_lightning.core.episode.Episode`; else missing
    num_computed          tokens behind the prompt, the environment's included
    ====================  ==============================================================================================

    Args:
        run_dir: folder of the run.
        stage: ``train`` or ``eval``.

    Returns:
        A frame in the order of steps; no rows where nothing was kept.
    """
    import pandas as pd

    files = sorted((Path(run_dir) / FOLDER / stage).glob("step_*.parquet"))
    if not files:
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


def shown_slots(responses: pd.DataFrame, most: int) -> list[int]:
    """Prompts of a step to show, those first whose rewards differ: they show what the policy learns from."""
    differs = responses.groupby("slot")["reward"].transform("nunique") > 1
    return [*dict.fromkeys(responses[differs]["slot"]), *dict.fromkeys(responses[~differs]["slot"])][:most]


def _rows(group: ResponseGroup) -> Iterator[dict[str, Any]]:
    kept = {kept.response.sample_index: kept for kept in group.kept}
    prompt = group.pool.prompt
    question = prompt_text(prompt.messages)
    for response in group.pool.responses:
        index, episode = response.sample_index, response.episode
        yield {
            "slot": group.pool.slot,
            "task": prompt.task,
            "prompt_id": prompt.prompt_id,
            "prompt": question,
            "sample_index": index,
            "round": response.round_index,
            "reward": response.reward,
            "is_positive": response.is_positive,
            "is_kept": index in kept,
            "selection_weight": kept[index].selection_weight if index in kept else None,
            "advantage": kept[index].advantage if index in kept else None,
            "components": json.dumps(dict(response.components)),
            "answer": response.answer,
            "finish_reason": "length" if response.is_truncated else "stop",
            "num_tokens": response.num_tokens,
            "text": response.text,
            "turns": json.dumps([asdict(turn) for turn in episode.turns]) if episode is not None else None,
            "ended_by": episode.ended_by if episode is not None else None,
            "num_computed": len(response.response_ids),
        }


class ResponseLengths(RolloutListener):
    """Logs ``rollout/response_tokens_p10``, ``_p50`` and ``_p90``: tokens of the step's responses that count.

    A run that learns to ramble, or to stop early, shows in the outer quantiles first.
    """

    def rollout_figures(self, result: RolloutResult) -> dict[str, float]:
        """Return the quantiles of a step; none for a step without responses."""
        lengths = [response.num_tokens for group in result.groups for response in group.pool.responses]
        if not lengths:
            return {}
        values = np.percentile(lengths, QUANTILES)
        return {
            f"rollout/response_tokens_p{percent}": float(value)
            for percent, value in zip(QUANTILES, values, strict=True)
        }
