"""The command line of an evaluation, with what a checkpoint implies written out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from ada_lightning.analysis.evaluation.checkpoint import PARTS_OF_RUN, resolve_checkpoint
from ada_lightning.run.trust import check_stored

OF_RUN = "of_run"
"""Option that holds the run's own settings, in each group of :data:`~.checkpoint.PARTS_OF_RUN`."""


def expand_arguments(argv: Sequence[str], options_dir: Path, config_dir: Path) -> list[str]:
    """Add to ``checkpoint=...`` the model it is, and as options of their groups the settings of its run.

    So ``data.source.num_heldout=50`` changes the run's data, and ``data=jsonl`` takes others instead.

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
    taken = [part for part in PARTS_OF_RUN if part in config and part not in given]
    if taken:
        if {"--config-dir", "-cd"} & {word.partition("=")[0] for word in argv}:
            raise ValueError("--config-dir does not go with the checkpoint of a run; copy its folder policy elsewhere")
        if given.get("trust", "").lower() != "true":
            stored = {part: config[part] for part in taken}
            check_stored(stored, config_dir=config_dir, argv=argv, where=str(checkpoint.run))
        if "environment" in given and "rollout" in taken:  # instead of the one that the run had
            config["rollout"]["environment"] = "${environment}"
        for part in taken:
            file = options_dir / part / f"{OF_RUN}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(yaml.safe_dump(config[part], sort_keys=False), encoding="utf-8")
            added.append(f"{part}={OF_RUN}")
    place = next(index for index, argument in enumerate(argv) if argument.startswith("checkpoint="))
    options = ["--config-dir", str(options_dir)] if taken else []
    # Beside the checkpoint and behind the options: argparse takes key=value arguments only where they stand together.
    return [*options, *argv[: place + 1], *added, *argv[place + 1 :]]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
