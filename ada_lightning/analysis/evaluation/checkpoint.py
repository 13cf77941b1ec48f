"""What a person may name as the model to evaluate: a run, a checkpoint, a model folder, a model of the hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ada_lightning.run.checkpoints import MANIFEST, damage
from ada_lightning.run.run_dir import RunDir

PARTS_OF_RUN = ("data", "reward", "rollout")
"""Groups of the configuration that an evaluation takes over from the run."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model, and the run it came from."""

    model_path: str
    """Folder in Hugging Face format, or a name on the hub."""
    label: str
    """Names its evaluations."""
    run: Path | None = None
    """Folder of its run, None where it is of none."""

    def check(self) -> None:
        """Compare the files of the model with the checkpoint's manifest, as a resume does, where it has one.

        Raises:
            ValueError: one is not as it was written.
        """
        folder = Path(self.model_path)
        if not (folder.parent / MANIFEST).is_file() or not (wrong := damage(folder.parent, below=folder.name)):
            return
        raise ValueError(
            f"the checkpoint {folder.parent} is damaged: {wrong}. Its figures would be those of another model; restore "
            "it from a copy, or name an older one of the run: checkpoint=<run>/checkpoints/step_<n>"
        )

    def run_config(self) -> dict[str, Any]:
        """Return the settings that the run was last started with; empty where there is no run.

        Raises:
            ValueError: they cannot be read, or lack a part.
        """
        if self.run is None:
            return {}
        file = RunDir(self.run).newest_config()
        try:
            config = yaml.safe_load(file.read_text(encoding="utf-8"))
            return {part: config[part] for part in PARTS_OF_RUN}
        except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
            raise ValueError(
                f"the settings of the run {self.run} cannot be read from {file} ({type(error).__name__}: {error}); "
                "to evaluate without them name the model folder inside, checkpoints/.../policy, copied elsewhere"
            ) from error


def resolve_checkpoint(name: str) -> Checkpoint:
    """Find out what ``checkpoint=<name>`` means.

    - a run's folder: its ``checkpoints/last/policy``, with the run's data, reward and rollout settings
    - a checkpoint's folder (``.../step_30``, ``.../last``) or the ``policy`` in it: the same for that one
    - the ``policy_average`` in it: the average of the weights, with the same settings
    - any other folder with a ``config.json``: a model, of no run
    - otherwise ``organisation/name``, where there is no folder ``organisation``: a model of the hub

    Raises:
        ValueError: it is none of these.
    """
    folder = Path(name).expanduser()
    if not folder.exists():
        # Beside other folders it is a misspelt one: the hub would be asked for an organisation "runs".
        if re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not name.startswith(".") and not folder.parent.is_dir():
            return Checkpoint(name, _label(name))
        raise ValueError(
            f"checkpoint={name} does not exist; give a run's folder, one of its checkpoints, a model's folder, or a "
            "name on the hub (organisation/name)"
        )
    if (folder / "config.yaml").exists() and not (folder / "policy").exists():
        try:
            folder = RunDir(folder).last_checkpoint()
        except ValueError as error:
            raise ValueError(f"checkpoint={name}: that run has no complete checkpoint yet") from error
    folder = folder.resolve()
    weights = "policy"
    if folder.name in ("policy", "policy_average") and (folder / "config.json").exists():
        folder, weights = folder.parent, folder.name
    if (folder / weights / "config.json").exists():
        run, suffix = folder.parent.parent, weights.removeprefix("policy").replace("_", "-")
        if folder.parent.name == "checkpoints" and (run / "config.yaml").exists():
            return Checkpoint(str(folder / weights), _label(f"{run.name}-{folder.name}{suffix}"), run)
        return Checkpoint(str(folder / weights), _label(f"{folder.name}{suffix}"))
    if (folder / "config.json").exists():
        return Checkpoint(str(folder), _label(folder.name))
    raise ValueError(
        f"checkpoint={name} is neither a run (it would have config.yaml and checkpoints), nor a checkpoint (policy), "
        "nor a model (config.json)"
    )


def _label(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")
