"""Finds the weights that a command line names, and checks that they are unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ada_lightning.analysis.report.run import Run, load_run
from ada_lightning.run.checkpoints import CheckpointStore, damage
from ada_lightning.run.run_dir import RunDir

POLICY, AVERAGE = "policy", "policy_average"
"""Folders of a checkpoint: the weights after its last update, and their average over updates."""


@dataclass(frozen=True, slots=True)
class ExportSource:
    """Checked weights, and the run that trained them."""

    run: Run
    weights: Path
    """Folder in Hugging Face format, inside a checkpoint."""
    policy_version: int
    """Updates behind the weights."""

    @property
    def is_average(self) -> bool:
        """Whether the weights are an average over updates."""
        return self.weights.name == AVERAGE

    @property
    def label(self) -> str:
        """Names run and weights."""
        return f"{self.run.name}-{self.weights.parent.name}{'-average' if self.is_average else ''}".replace("/", "-")


def find_source(name: str, *, checkpoint: str = "", average: bool = False, runs_dir: Path) -> ExportSource:
    """Find a run's weights, and read all of them once to compare them with what was written.

    Args:
        name: the run's folder, or its name in ``runs_dir``.
        checkpoint: name of one of its checkpoints; empty for the last.
        average: take the average of the weights instead of the last ones.
        runs_dir: where runs are that are given by name.

    Raises:
        ValueError: there is no such run, checkpoint or average, or a file of the weights is damaged, or is none.
    """
    folder = next((path for path in (Path(name), runs_dir / name) if path.is_dir()), None)
    if folder is None or not (folder / "config.yaml").is_file():
        missing = f"{folder} has no config.yaml" if folder else f"there is no folder {name}, and none in {runs_dir}"
        raise ValueError(f"{name} is no run: {missing}")
    path = _checkpoint(folder, checkpoint)
    weights = path / (AVERAGE if average else POLICY)
    if not (weights / "config.json").is_file():
        if average:
            raise ValueError(
                f"{path} has no average of the weights: a run keeps one with callbacks.weight_average.decay=0.99, say; "
                "leave out --average for the last weights"
            )
        raise ValueError(f"{path} holds no weights: {weights / 'config.json'} is missing")
    if wrong := damage(path, below=weights.name):
        others = [other.name for other in CheckpointStore(folder / "checkpoints").versions().values()]
        older = ", ".join(other for other in others if other != path.name) or "none"
        raise ValueError(
            f"the checkpoint {path} is damaged: {wrong}. Restore it from a copy, or take another: --checkpoint <name>, "
            f"of {older}"
        )
    for file in weights.rglob("*"):  # a folder may be anybody's, and link to any file: what is exported may be pushed
        if file.is_symlink():
            raise ValueError(f"{file} is a link; only files inside the checkpoint are exported")
    return ExportSource(load_run(RunDir(folder)), weights, int(path.stem.removeprefix("step_")))


def _checkpoint(folder: Path, name: str) -> Path:
    versions = CheckpointStore(folder / "checkpoints").versions().values()
    if not versions:
        raise ValueError(f"the run {folder} has no complete checkpoint yet; it writes one at its end at the latest")
    if not name or name == "last":
        return RunDir(folder).last_checkpoint()
    found = [path for path in versions if path.name == name]
    if not found:
        raise ValueError(f"the run {folder} has no checkpoint {name}; it has {', '.join(p.name for p in versions)}")
    return found[0]
