"""Finds the model that a command line names for evaluation, and the options that follow from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from ada_lightning.methods.catalog import named_by, names
from ada_lightning.run.checkpoints import MANIFEST, damage
from ada_lightning.run.run_dir import RunDir
from ada_lightning.run.trust import check_stored

PARTS_OF_RUN = ("data", "reward", "rollout")
"""Groups of the configuration that an evaluation takes over from the run."""
OF_RUN = "of_run"
"""Option that holds the run's own settings, in each group of :data:`~.checkpoint.PARTS_OF_RUN`."""


KEPT: dict[str, tuple[str, ...]] = {
    "rollout": (
        *("environment", "sampling", "max_model_tokens", "seed", "seed_requests", "positive_threshold"),
        *("truncated", "grader_failure"),
    ),
    "data": ("max_prompt_tokens", "format"),
    "reward": (),
}
"""What stays the run's where the command line chooses another option of a group: another engine, or other prompts."""


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
        # Where there are other folders it is a misspelt one: the hub would be asked for an organisation "runs".
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


def expand_arguments(argv: Sequence[str], options_dir: Path, config_dir: Path) -> list[str]:
    """Add to ``checkpoint=...`` the model it is, and as options of their groups the settings of its run.

    So ``data.source.num_heldout=50`` changes the run's data, and ``data=jsonl`` takes others instead. What does not
    depend on that choice stays the run's (:data:`KEPT`): with ``rollout=transformers`` another engine draws as before.

    Args:
        argv: command line without the program's name.
        options_dir: empty folder for the options; it has to stay until the configuration is composed.
        config_dir: the configuration that ships.

    Returns:
        The command line; unchanged where no checkpoint is named.

    Raises:
        ValueError: there is no such checkpoint, it is damaged, another argument gets in its way, or the settings of
            its run would run what :func:`~ada_lightning.run.trust.check_stored` refuses.
    """
    if {"-m", "--multirun"} & set(argv):
        raise ValueError("one evaluation at a time: leave out -m and start the program once for each")
    given = dict(argument.partition("=")[::2] for argument in argv if "=" in argument)
    name = given.get("checkpoint", "").strip("\"'")
    if name in ("", "null"):
        return list(argv)
    if clashes := sorted({"model", "model.path"} & given.keys()):
        raise ValueError(f"checkpoint={name} and {clashes[0]}={given[clashes[0]]} both name a model; leave one out")
    checkpoint = resolve_checkpoint(name)
    checkpoint.check()
    added = ["model=pretrained", f"model.path={_quoted(checkpoint.model_path)}"]
    if "label" not in given:
        added.append(f"label={_quoted(checkpoint.label)}")
    config = checkpoint.run_config()
    parts = {part: _of_run(config[part], part, given, config_dir) for part in PARTS_OF_RUN if part in config}
    parts = {part: node for part, node in parts.items() if node}
    if parts:
        if {"--config-dir", "-cd"} & {word.partition("=")[0] for word in argv}:
            raise ValueError("--config-dir does not go with the checkpoint of a run; copy its folder policy elsewhere")
        if given.get("trust", "").lower() != "true":
            stored = {part: {key: config[part][key] for key in config[part] if key in parts[part]} for part in parts}
            check_stored(stored, shipped=partial(named_by, config_dir), argv=argv, where=str(checkpoint.run))
        if "environment" in given and "rollout" in parts:  # instead of the one that the run had
            parts["rollout"]["environment"] = "${environment}"
        added += _write_options(parts, options_dir)
    rest = [argument for argument in argv if argument.partition("=")[0] not in parts]
    place = next(index for index, argument in enumerate(rest) if argument.startswith("checkpoint="))
    options = ["--config-dir", str(options_dir)] if parts else []
    # Beside the checkpoint and behind the options: argparse takes key=value arguments only where they stand together.
    return [*options, *rest[: place + 1], *added, *rest[place + 1 :]]


def _of_run(settings: Mapping[str, Any], group: str, given: Mapping[str, str], config_dir: Path) -> dict[str, Any]:
    """Return the option that a run's settings make: all of a group's, or on top of another option what stays."""
    if group not in given:
        return dict(settings)
    option = given[group].strip("\"'").removesuffix(".yaml")
    if option not in names(config_dir, group):  # whoever composes says what there is
        return {}
    kept = {key: settings[key] for key in KEPT[group] if key in settings and f"{group}/{key}" not in given}
    return {"defaults": [option, "_self_"], **kept} if kept else {}


def _write_options(parts: Mapping[str, Mapping[str, Any]], options_dir: Path) -> list[str]:
    """Write an option for each group and return the arguments that choose them."""
    options = {part: dict(node) for part, node in parts.items()}
    if "defaults" in options.get("data", {}) and (prompt_format := options["data"].pop("format", None)):
        options["data/format"] = prompt_format  # laid over that of the other data, the arguments of both would mix
    for group, node in options.items():
        file = options_dir / group / f"{OF_RUN}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(node, sort_keys=False), encoding="utf-8")
    return [f"{group}={OF_RUN}" for group in options]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
