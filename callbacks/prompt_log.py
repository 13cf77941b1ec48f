"""Records the cost and the outcome of every prompt of every step in one file, for plots and reports."""

from __future__ import annotations

import csv
import io
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.core.stopping.paths import MAX_RESPONSES, reach, unbiased_table
from ada_lightning.core.stopping.rule import StoppingRule
from ada_lightning.run.files import append_whole, replacing
from ada_lightning.run.run_dir import RunDir

from .rollout_listener import RolloutListener

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from ada_lightning.core.records import ResponseGroup, ResponsePool
    from ada_lightning.core.step_records import RolloutResult

_NO_COUNTS = {
    "prompt_id": "string",
    "task": "string",
    "expected_pass_rate": "float64",
    "pass_rate": "float64",
    "reward_mean": "float64",
}
COLUMNS = {
    name: _NO_COUNTS.get(name, "int64")
    for name in (
        "step", "policy_version", "slot", "prompt_id", "task", "expected_pass_rate", "pass_rate", "num_first_round",
        "num_first_round_positive", "num_drawn", "num_sampled", "num_positive", "num_truncated", "num_failed",
        "num_rounds", "num_kept", "has_signal", "is_resolved", "reward_mean", "tokens", "hint", "num_hints",
    )
}  # fmt: skip
"""Columns of ``prompts.csv`` and their pandas types, in their order. :func:`read_prompts` says what they mean."""
_LATER = ("hint", "num_hints")
"""Columns at the end that files of earlier versions lack; they had 0 in both."""


class PromptLog(RolloutListener):
    """Appends one row for each prompt of a step to ``prompts.csv`` in the run folder; :func:`read_prompts` reads it.

    About 100 bytes a row, written with one system call a step. A kill cuts the last line at worst, and a resumed run
    first drops the rows of the steps that it is about to repeat.

    Args:
        run_dir: folder of the run.
    """

    def __init__(self, *, run_dir: str | Path) -> None:
        self.path = RunDir(run_dir).prompts_csv
        self._is_open = False

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Append the rows of this step."""
        if not trainer.is_global_zero:
            return
        if not self._is_open:
            _open(self.path, before_step=result.step)
            self._is_open = True
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for group in result.groups:
            writer.writerow(_row(result, group))
        append_whole(self.path, text.getvalue().encode())


def read_prompts(run_dir: str | Path) -> pd.DataFrame:
    """Read ``prompts.csv``: one row per prompt and step, in the order of steps and slots.

    ==========================  ========================================================================================
    column                      meaning
    ==========================  ========================================================================================
    step                        rollout step, from 0
    policy_version              updates behind the weights that sampled: the ``step`` of ``metrics.csv``
    slot                        position in the step; a prompt drawn twice in a step has two
    prompt_id, task             as in :class:`~ada_lightning.core.records.Prompt`
    expected_pass_rate          believed before the first response, from the prompt's history
    pass_rate                   unbiased by stopping: path counting where a rule of counts ended the pool, else the
                                share of positives in the first round; NaN where nothing counted
    num_first_round             responses of the first round that count as evidence
    num_first_round_positive    positives among them
    num_drawn                   responses drawn, those excluded from the counts included
    num_sampled                 responses that count as evidence
    num_positive                positives among them
    num_truncated               cut by the length limit, excluded ones included
    num_failed                  excluded because the grader failed
    num_rounds                  rounds begun
    num_kept                    responses that may train
    has_signal                  1 where something is kept and the responses are told apart, by rewards or advantages;
                                1 too where a step that was filled up did not need a prompt with a signal: it keeps 0
    is_resolved                 1 where sampling found what it looks for
    reward_mean                 over ``num_sampled``; biased by stopping; NaN where nothing counted
    tokens                      response tokens of the responses that count; excluded ones are not in it
    hint                        level of the hint that a group was given, whose ``prompt_id`` ends with it; 0 without.
                                A hinted group is no visit of its prompt: its ``pass_rate`` is that with the hint
    num_hints                   levels that the prompt's solution has; 0 without a hint
    ==========================  ========================================================================================

    Args:
        run_dir: folder of the run.

    Returns:
        A frame with the columns and types of :data:`COLUMNS`; no rows where there is no file.
    """
    import pandas as pd

    path = RunDir(run_dir).prompts_csv
    content = path.read_bytes() if path.exists() else b""
    complete = content[: content.rfind(b"\n") + 1] or _line(list(COLUMNS))  # a kill cuts the last line at worst
    # An id or a task that reads "NA" is a text, not a missing value.
    frame = pd.read_csv(
        io.BytesIO(complete), dtype=COLUMNS, keep_default_na=False, na_values={"pass_rate": [""], "reward_mean": [""]}
    )
    return frame.assign(**{name: 0 for name in _LATER if name not in frame})[list(COLUMNS)]


def _open(path: Path, *, before_step: int) -> None:
    """Drop the rows of ``before_step`` and later, which a lost attempt wrote; rows are in the order of steps."""
    header = _line(list(COLUMNS))
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    rows = lines[1:] if lines[:1] == [header] else []
    if lines[:1] == [_line([name for name in COLUMNS if name not in _LATER])]:
        rows = [row.removesuffix(b"\n") + b",0,0\n" for row in lines[1:] if row.endswith(b"\n")]
    kept = [row for row in rows if row.endswith(b"\n") and int(row.split(b",", 1)[0]) < before_step]
    with replacing(path) as temporary:
        temporary.write_bytes(header + b"".join(kept))


def _row(result: RolloutResult, group: ResponseGroup) -> list[Any]:
    pool = group.pool
    first_round = [response.is_positive for response in pool.responses if response.round_index == 0]
    num_truncated = sum(response.is_truncated for response in pool.responses) + pool.num_truncated_excluded
    pass_rate = unbiased_pass_rate(pool)
    return [
        result.step,
        result.policy_version,
        pool.slot,
        pool.prompt.prompt_id,
        " ".join(pool.prompt.task.split()),  # a line a row
        f"{pool.belief.mean:.4g}",
        "" if pass_rate is None else f"{pass_rate:.4g}",
        len(first_round),
        sum(first_round),
        pool.num_drawn,
        pool.num_sampled,
        pool.num_positive,
        num_truncated,
        pool.num_failed,
        1 + max((response.round_index for response in pool.responses), default=-1),
        len(group.kept),
        int(group.has_signal),
        int(pool.is_resolved),
        f"{sum(response.reward for response in pool.responses) / pool.num_sampled:.6g}" if pool.responses else "",
        sum(response.num_tokens for response in pool.responses),
        pool.hint,
        0 if pool.prompt.hint is None else pool.prompt.hint.num_levels,
    ]


def unbiased_pass_rate(pool: ResponsePool) -> float | None:
    """Estimate a pool's pass rate free of the bias of stopping, as :func:`read_prompts` says; None without evidence."""
    rule, end = pool.rule, (pool.num_positive, pool.num_negative)
    if rule is not None and 0 < pool.num_sampled <= rule.n_max <= MAX_RESPONSES and reach(rule)[end] > 0:
        return float(_pass_rate_table(rule)[end])
    first_round = [response.is_positive for response in pool.responses if response.round_index == 0]
    return sum(first_round) / len(first_round) if first_round else None


@lru_cache(maxsize=1024)
def _pass_rate_table(rule: StoppingRule) -> NDArray[np.float64]:
    return unbiased_table(rule, {(1, 0): 1.0})


def _line(cells: list[str]) -> bytes:
    return (",".join(cells) + "\n").encode()
