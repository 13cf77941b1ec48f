"""A page to read: what the policy answers right and wrong, and how that changed on held-out prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.run.files import write_text
from ada_lightning.run.run_dir import RunDir

from .response_log import FOLDER
from .rollout_listener import RolloutListener

if TYPE_CHECKING:
    import pandas as pd

    from ada_lightning.core.step_records import EvaluationResult, RolloutResult

MAX_CHARACTERS = 4000
"""Longest text shown whole; of a longer one the start and the end, where the answer stands."""


class SamplePage(RolloutListener):
    """Writes ``samples.html`` from the newest files of :class:`~ada_lightning.callbacks.response_log.ResponseLog`.

    It must come after that callback, which decides how often there is something new.

    Args:
        run_dir: folder of the run.
        max_prompts: most prompts in each of the page's two parts.

    Raises:
        ValueError: ``max_prompts`` is below 1.
    """

    def __init__(self, *, run_dir: str | Path, max_prompts: int = 8) -> None:
        if max_prompts < 1:
            raise ValueError(
                f"max_prompts must be at least 1; got {max_prompts}; for no page, leave the callback out: "
                "~callbacks.sample_page"
            )
        self.run_dir = RunDir(run_dir)
        self.max_prompts = max_prompts

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Write the page anew where this step's responses were kept."""
        self._write_if_new(trainer, "train", result.step)

    def on_evaluation_end(self, trainer: Trainer, pl_module: LightningModule, result: EvaluationResult) -> None:
        """Write the page anew with the evaluation."""
        self._write_if_new(trainer, "eval", result.step)

    def _write_if_new(self, trainer: Trainer, stage: str, step: int) -> None:
        path = self.run_dir.path / FOLDER / stage / f"step_{step:06d}.parquet"
        if not trainer.is_global_zero or not path.exists():
            return
        write_sample_page(self.run_dir.path, max_prompts=self.max_prompts)


def write_sample_page(run_dir: Path, *, max_prompts: int = 8) -> Path:
    """Write ``samples.html`` into a run folder from the responses kept there.

    Args:
        run_dir: folder of the run.
        max_prompts: most prompts in each part.

    Returns:
        The page: one file without scripts or references, model text escaped.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,  # responses are text of a model: nobody knows what is in them
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cut": _cut, "facts": _facts, "name": _name, "shown": _shown, "turns": _turns}
    text = environment.get_template("sample_page.html.j2").render(
        title=RunDir(run_dir).title, training=_training(run_dir, max_prompts), heldout=_heldout(run_dir, max_prompts)
    )
    write_text(run_dir / "samples.html", text)
    return run_dir / "samples.html"


def _training(run_dir: Path, max_prompts: int) -> list[tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]]:
    """All, right and wrong responses to each prompt of the newest step; prompts with both first: these teach."""
    if not (files := _files(run_dir, "train")):
        return []
    groups = [group for _, group in _read(files[-1]).groupby("slot", sort=True)]
    groups.sort(key=lambda group: group.is_positive.nunique() < 2)
    return [(group, group[group.is_positive], group[~group.is_positive]) for group in groups[:max_prompts]]


def _heldout(run_dir: Path, max_prompts: int) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """Responses to each prompt, with the same seeds, before and after; the prompts that changed most first."""
    if not (files := _files(run_dir, "eval")):
        return []
    sides = [_read(files[0]), _read(files[-1])]
    before, after = (frame.groupby("prompt_id").is_positive.mean() for frame in sides)
    changes = (after - before).dropna().abs().sort_values(ascending=False, kind="stable")
    old, new = (dict(list(frame.groupby("prompt_id"))) for frame in sides)
    return [(old[prompt_id], new[prompt_id]) for prompt_id in changes.index[:max_prompts]]


def _shown(candidates: pd.DataFrame) -> Any:
    """The first of the responses, one that trains where there is one; None without any."""
    if candidates.empty:
        return None
    return candidates.sort_values("is_kept", ascending=False, kind="stable").iloc[0]


def _facts(row: Any) -> str:
    facts = [f"reward {row.reward:g}", f"{row.num_tokens} tokens"]
    if turns := _turns(row):
        facts.append(f"{len(turns)} turns, ended by {row.ended_by}")
    elif row.finish_reason == "length":
        facts.append("cut by the length limit")
    if isinstance(row.answer, str):
        facts.append(f"answer {row.answer}")
    if row.advantage == row.advantage and row.advantage is not None:  # neither NaN nor missing
        facts.append(f"advantage {row.advantage:+.3g}")
    return ", ".join(facts)


def _turns(row: Any) -> list[dict[str, Any]]:
    """The turns of an episode; none of a single response."""
    return json.loads(row.turns) if isinstance(row.turns, str) else []


def _name(frame: pd.DataFrame) -> str:
    row = frame.iloc[0]
    return f"{row.task} {row.prompt_id}".strip()


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"


def _files(run_dir: Path, stage: str) -> list[Path]:
    return sorted((run_dir / FOLDER / stage).glob("step_*.parquet"))


def _read(path: Path) -> Any:
    import pandas as pd

    return pd.read_parquet(path)
