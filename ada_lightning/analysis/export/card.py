"""The model card of exported weights: what was done, what was really optimised, and what came out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ada_lightning import __version__
from ada_lightning.analysis.evaluation.intervals import Estimate, estimate_means
from ada_lightning.analysis.evaluation.results import read_results
from ada_lightning.analysis.evaluation.tables import results_text
from ada_lightning.analysis.export.source import ExportSource
from ada_lightning.analysis.report.method import short
from ada_lightning.run.run_dir import RunDir
from ada_lightning.run.terminal import start_of

if TYPE_CHECKING:
    import pandas as pd

PICTURES = {
    "curves.png": "Learning curves of the run",
    "sampling.png": "How hard its prompts were, and who got the responses",
}
"""Files of a run folder that the card shows, and what is said of them."""
PARTS = (
    "sampler", "selection", "advantage", "loss", "curriculum", "estimator", "refill", "token_masks", "optimizer",
    "parameters", "reward.reward",
)  # fmt: skip
NUMBERS = (
    "num_steps", "data.prompts_per_step", "data.num_minibatches", "data.epochs_per_rollout",
    "rollout.sampling.max_new_tokens", "rollout.sampling.temperature", "seed",
)  # fmt: skip
"""Settings that a reader asks for first; the command has the others."""
BASES = {"SmolLM2Wheel": "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Models of ``conf/model`` that do not say where on the hub they are."""
_COSTS = ("generated_tokens", "tokens_wasted")
"""Of a rollout: what the engine generated, and what of it was dropped again."""
MAX_VALUE = 120
"""Characters of a value in a table."""


def model_card(source: ExportSource, *, evaluations: Sequence[Path] = (), pictures: Sequence[str] = ()) -> str:
    """Write the card, with the metadata that the hub reads.

    Args:
        source: weights and run.
        evaluations: folders of finished evaluations of these very weights, whose tables the card shows.
        pictures: which of :data:`PICTURES` are next to it.

    Raises:
        ValueError: an evaluation is not finished, or is of other weights.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    run_dir = RunDir(source.run.folder)
    config = run_dir.stored_config()
    figures = heldout_figures(source)
    environment = Environment(
        loader=PackageLoader("ada_lightning.analysis.export"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown, of settings and figures; no text of a model is in it
    )
    environment.filters["estimate"] = _estimate
    return environment.get_template("card.md.j2").render(
        metadata=_metadata(source, config, figures),
        source=source,
        base=base_model(config),
        experiment=config.get("experiment_name", source.run.name),
        steps=sum("rollout/generated_tokens" in row for row in _rows(source)),
        tokens=int(sum(sum(row.get(f"rollout/{name}", 0.0) for name in _COSTS) for row in _rows(source))),
        statement=_text(run_dir.path / "objective.txt"),
        figures=figures,
        evaluations=[_evaluation(folder, source.weights) for folder in evaluations],
        pictures={name: PICTURES[name] for name in pictures},
        settings=_settings(config),
        data=_data_lines(run_dir.path / "data_report.json"),
        command=run_dir.stored_command(),
        version=__version__,
    )


def base_model(config: Mapping[str, Any]) -> str:
    """Name on the hub of the model that the run began with; empty where it is none of the hub's."""
    model = config.get("model") or {}
    path = str(model.get("path", ""))
    if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", path) and not Path(path).exists():
        return path
    return BASES.get(str(model.get("_target_", "")).rpartition(".")[2], "")


def spelled(node: Any) -> str:
    """Spell a part with its settings as code does, in one line.

    Example:
        >>> spelled({"_target_": "ada_lightning.methods.sampling.Uniform", "n": 4, "of": {"_target_": "a.B"}})
        'Uniform(n=4, of=a.B())'
    """
    if isinstance(node, dict):
        inner = ", ".join(f"{key}={spelled(value)}" for key, value in node.items() if not str(key).startswith("_"))
        return f"{short(node['_target_'])}({inner})" if "_target_" in node else f"{{{inner}}}"
    if isinstance(node, list):
        return f"[{', '.join(map(spelled, node))}]"
    return short(node)


def _rows(source: ExportSource) -> list[Mapping[str, float]]:
    """Rows of the updates behind the weights."""
    return [row for row in source.run.rows if row["step"] < source.policy_version]


def _metadata(source: ExportSource, config: Mapping[str, Any], figures: HeldoutFigures | None) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    results = None
    if figures is not None:
        value = figures.after.mean if isinstance(figures.after, Estimate) else figures.after
        results = [
            EvalResult(
                task_type="text-generation",
                dataset_type="heldout",
                dataset_name="held-out prompts of the run",
                metric_type=figures.name,
                metric_value=round(value, 6),
            )
        ]
    data = ModelCardData(
        model_name=source.label,
        base_model=base_model(config) or None,
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["reinforcement-learning", "reinforce-ada", "ada_lightning"],
        eval_results=results,
    )
    return str(data.to_yaml()).strip()


def _settings(config: Mapping[str, Any]) -> dict[str, str]:
    found = {key: _select(config, key) for key in (*PARTS, *NUMBERS)}
    return {key: _cell(spelled(value)) for key, value in found.items() if value not in (None, [], {})}


def _select(config: Mapping[str, Any], key: str) -> Any:
    node: Any = config
    for name in key.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    return node


def _cell(text: str) -> str:
    """Put a value into a table's cell, as code."""
    line = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return f"`{line if len(line) <= MAX_VALUE else line[:MAX_VALUE] + '...'}`"


def _estimate(value: Estimate | float | None) -> str:
    """Spell a figure, with its interval where it has one."""
    if value is None:
        return ""
    if isinstance(value, Estimate):
        if value.low is None:
            return f"{value.mean:.3f} [-]"
        return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"
    return f"{value:.3f}"


def _data_lines(file: Path) -> list[str]:
    """Say what was read and kept; nothing where the run did not say."""
    if not file.is_file():
        return []
    report = json.loads(file.read_text(encoding="utf-8"))
    lines = [f"{part['origin']}: {part['read']} rows read, {part['kept']} kept" for part in report["reading"]]
    for split, title in (("train", "training"), ("heldout", "held-out")):
        counts = report[split]["kept_by_task"]
        tasks = ", ".join(f"{task or 'other'} {count}" for task, count in counts.items())
        lines.append(f"{report[split]['kept']} {title} prompts{f' ({tasks})' if len(counts) > 1 else ''}")
    return lines


def _evaluation(folder: Path, weights: Path) -> str:
    """Table of a finished evaluation of these very weights, a level below the card's own headings."""
    results = read_results(folder)
    measured = str(results.get("model_path", ""))
    if Path(measured).resolve() != weights.resolve():
        raise ValueError(
            f"{folder} is an evaluation of {measured or 'an unknown model'}, not of {weights.resolve()}; to evaluate "
            f"these weights: {' '.join(start_of('evaluate'))} checkpoint={weights}"
        )
    text = results_text(results).replace(f"Model: `{results['model']}`. ", "")
    return re.sub(r"^#", "###", text, flags=re.MULTILINE).strip()


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


@dataclass(frozen=True, slots=True)
class HeldoutFigures:
    """Held-out avg@k: the mean over prompts of the mean reward of k responses."""

    name: str
    """``avg@4``, say."""
    before: Estimate | float | None
    """Of the run's first evaluation; a number has no interval, None is unknown."""
    after: Estimate | float
    """Of the exported weights."""
    difference: Estimate | None = None
    """On the same prompts, after minus before."""
    before_version: int = 0
    """Updates behind the first evaluation's weights."""


def heldout_figures(source: ExportSource) -> HeldoutFigures | None:
    """Read what the run measured of the exported weights.

    Intervals come from the responses that the run kept (``responses/eval``), over prompts, as
    those of an evaluation. Of an average of the weights, and where no responses were kept, there is the figure alone.

    Returns:
        None where these weights were not evaluated.

    Args:
        source: weights and run.
    """
    run, version = source.run, source.policy_version
    key = run.heldout_key
    if key is None:
        return None
    name = key.rpartition("/")[2].replace("_at_", "@")
    column = key.replace("eval/", "eval_average/", 1) if source.is_average else key
    measured = {int(row["step"]): row for row in run.rows if column in row}
    if version not in measured:
        return None
    first = min((int(row["step"]) for row in run.rows if key in row), default=version)
    before = next((row[key] for row in run.rows if int(row["step"]) == first and key in row), None)
    means: Mapping[int, pd.Series[float]] = {}
    lowest, highest = 0.0, 1.0
    if not source.is_average:
        means, lowest, highest = _means_by_prompt(run.folder / "responses" / "eval", {first, version})
    if version not in means:
        return HeldoutFigures(name, before if first < version else None, measured[version][column], None, first)
    pair = means[version].to_frame("after")
    if first < version and first in means:
        both = means[first].to_frame("before").join(pair, how="inner").assign(change=lambda of: of.after - of.before)
        if not both.empty:  # otherwise held-out prompts were others then
            ends = np.array([[lowest, lowest, lowest - highest], [highest, highest, highest - lowest]])
            start, end, change = estimate_means([both.to_numpy()], [1.0], ends)
            return HeldoutFigures(name, start, end, change, first)
    (after,) = estimate_means([pair.to_numpy()], [1.0], np.array([[lowest], [highest]]))
    return HeldoutFigures(name, None, after)


def _means_by_prompt(folder: Path, versions: set[int]) -> tuple[Mapping[int, pd.Series[float]], float, float]:
    """Return mean rewards of kept prompts, by policy version, and between what rewards lie: 0 and 1, or wider."""
    import pandas as pd

    found, lowest, highest = {}, 0.0, 1.0
    for file in sorted(folder.glob("step_*.parquet")):
        frame = pd.read_parquet(file, columns=["policy_version", "slot", "prompt_id", "reward"])
        version = int(frame["policy_version"].iloc[0])
        if version in versions:
            found[version] = frame.groupby(["slot", "prompt_id"])["reward"].mean()
            lowest, highest = min(lowest, frame["reward"].min()), max(highest, frame["reward"].max())
    return found, float(lowest), float(highest)
