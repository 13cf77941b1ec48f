"""A page to read: what the policy answers right and wrong, and how that changed on held-out prompts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.run.run_dir import RunDir
from callbacks.response_log import FOLDER
from callbacks.rollout_listener import RolloutListener

if TYPE_CHECKING:
    import pandas as pd

    from ada_lightning.core.result import EvaluationResult, RolloutResult

MAX_CHARACTERS = 4000
"""Longest text shown whole; of a longer one the start and the end, where the answer stands."""
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:75rem;margin:1.5rem auto;padding:0 1rem;color:#1f2328;
background:#fff}
h1{font-size:1.4rem}h2{font-size:1.15rem;margin-top:2rem}
article{border:1px solid #d0d7de;border-radius:6px;margin:1rem 0;padding:.8rem 1rem}
header{color:#59636e;font-size:.85rem;margin-bottom:.4rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f8fa;border-radius:4px;padding:.6rem;margin:.3rem 0;
font:13px/1.4 ui-monospace,monospace;max-height:22rem;overflow:auto}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:1rem}.right pre{background:#eaf7ee}.wrong pre{background:#fdeeee}
.label{font-size:.8rem;font-weight:600}
"""


class SamplePage(RolloutListener):
    """Writes ``samples.html`` from the newest files of :class:`~callbacks.response_log.ResponseLog`.

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
    title = escape(RunDir(run_dir).title)
    parts = [f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"]
    parts.append(f"<h1>{title}: samples</h1>")
    train, heldout = (sorted((run_dir / FOLDER / stage).glob("step_*.parquet")) for stage in ("train", "eval"))
    if train:
        parts += _training_part(_read(train[-1]), max_prompts)
    if heldout:
        parts += _heldout_part(_read(heldout[0]), _read(heldout[-1]), max_prompts)
    target = run_dir / "samples.html"
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.write_text("\n".join(parts) + "\n", encoding="utf-8")
    temporary.replace(target)
    return target


def _training_part(frame: pd.DataFrame, max_prompts: int) -> Iterator[str]:
    """Prompts with right and wrong responses first: these teach."""
    first = frame.iloc[0]
    yield f"<h2>Training prompts of step {first.step} (policy version {first.policy_version})</h2>"
    groups = [group for _, group in frame.groupby("slot", sort=True)]
    groups.sort(key=lambda group: group.is_positive.nunique() < 2)
    for group in groups[:max_prompts]:
        right, wrong = group[group.is_positive], group[~group.is_positive]
        facts = (
            f"{_name(group)} &middot; {len(right)} right of {len(group)} sampled ({group.is_positive.mean():.0%}) "
            f"&middot; {group.is_kept.sum()} kept &middot; {group.num_tokens.sum()} tokens"
        )
        sides = [_response("right", right), _response("wrong", wrong)]
        yield _article(facts, group.prompt.iloc[0], sides)


def _heldout_part(before: pd.DataFrame, after: pd.DataFrame, max_prompts: int) -> Iterator[str]:
    """The same prompts and seeds before and after; those that changed most first."""
    start, end = int(before.step.iloc[0]), int(after.step.iloc[0])
    yield f"<h2>Held-out prompts: step {start} and step {end}</h2>"
    rates = [frame.groupby("prompt_id").is_positive.mean() for frame in (before, after)]
    changes = (rates[1] - rates[0]).dropna().abs().sort_values(ascending=False, kind="stable")
    for prompt_id in changes.index[:max_prompts]:
        old, new = (frame[frame.prompt_id == prompt_id] for frame in (before, after))
        facts = f"{_name(new)} &middot; pass rate {rates[0][prompt_id]:.2f} &rarr; {rates[1][prompt_id]:.2f}"
        sides = [
            _response("right" if side.is_positive.iloc[0] else "wrong", side.head(1), f"step {step}: ")
            for side, step in ((old, start), (new, end))
        ]
        yield _article(facts, new.prompt.iloc[0], sides)


def _response(kind: str, candidates: pd.DataFrame, prefix: str = "") -> str:
    """The first of the responses, one that trains where there is one."""
    if candidates.empty:
        return f"<div class={kind}><div class=label>no {kind} response</div></div>"
    row = candidates.sort_values("is_kept", ascending=False, kind="stable").iloc[0]
    facts = [f"reward {row.reward:g}", f"{row.num_tokens} tokens"]
    if row.finish_reason == "length":
        facts.append("cut by the length limit")
    if isinstance(row.answer, str):
        facts.append(f"answer {row.answer}")
    if row.advantage == row.advantage and row.advantage is not None:  # neither NaN nor missing
        facts.append(f"advantage {row.advantage:+.3g}")
    label = f"<div class=label>{prefix}{kind} &middot; {escape(', '.join(facts))}</div>"
    return f"<div class={kind}>{label}<pre>{escape(_cut(row.text))}</pre></div>"


def _article(facts: str, prompt: str, sides: list[str]) -> str:
    return (
        f"<article><header>{facts}</header><pre>{escape(_cut(prompt))}</pre>"
        f"<div class=pair>{''.join(sides)}</div></article>"
    )


def _name(frame: pd.DataFrame) -> str:
    row = frame.iloc[0]
    return escape(f"{row.task} {row.prompt_id}".strip())


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"


def _read(path: Path) -> Any:
    import pandas as pd

    return pd.read_parquet(path)
