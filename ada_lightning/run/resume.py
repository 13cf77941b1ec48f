"""What a resume changes: settings against those the run had before, and a method that must not change unnoticed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ada_lightning.run.flat import flat

METHOD = ("sampler", "selection", "advantage", "loss", "objective", "parameters")
"""Nodes whose class makes the method that a run measures."""
OF_THE_SESSION = ("ckpt", "allow_other_method")
"""Settings that say how to resume, and nothing about the run."""
SHAPE = (
    "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads",
)  # fmt: skip
"""Entries of a model's ``config.json`` without which the weights of one do not fit the other."""
NAMES = ("run_name", "run_dir")
"""Settings that say where a run lies, at whatever depth: the folder may be spelt in another way, and is the same."""
SESSION_OPTIONS = (*OF_THE_SESSION, *NAMES)
"""Options that a command which continues a run gives anew."""
NOT_SET = "(not set)"
"""What stands for a setting that only one of two configurations has."""


def of_the_run(config: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what every resume may set."""
    return {key: value for key, value in config.items() if key not in OF_THE_SESSION}


def changed_settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Compare two plain and resolved configurations, without what belongs to the session and where the run lies.

    Returns:
        Old and new value by dotted key; a list is a value.

    Example:
        >>> changed_settings({"ckpt": None, "loss": {"eps": 1}}, {"ckpt": "last", "loss": {"eps": 2}, "seed": 0})
        {'loss.eps': (1, 2), 'seed': ('(not set)', 0)}
    """
    before, after = _flat(old), _flat(new)
    pairs = {key: (before.get(key, NOT_SET), after.get(key, NOT_SET)) for key in {**before, **after}}
    return {key: (was, now) for key, (was, now) in pairs.items() if was != now}


def check_method(old: Mapping[str, Any], new: Mapping[str, Any], *, way_back: str) -> None:
    """Refuse to continue a run with another method: its curves would be those of neither.

    Args:
        old: configuration that the run had.
        new: the one that it is to go on with.
        way_back: options that continue the run as it is.

    Raises:
        ValueError: a part of the method is of another class, or it is another model.
    """
    parts = {key: (_class_name(old, key), _class_name(new, key)) for key in ("model", *METHOD)}
    differing = {key: pair for key, pair in parts.items() if pair[0] != pair[1]}
    if "model" not in differing:
        models = [{"model": config.get("model")} for config in (old, new)]
        differing |= {key: pair for key, pair in changed_settings(*models).items() if key != "model.cache_dir"}
    if listed := [f"{key}: {was} -> {now}" for key, (was, now) in differing.items()]:
        what = "model" if all(key.startswith("model") for key in differing) else "method"
        raise ValueError(
            f"this run would go on with another {what} ({'; '.join(listed)}); repeat the options that it was started "
            f"with: {way_back}; or, if the change is intended, add allow_other_method=true"
        )


def check_optimizer(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse an optimiser of another class, which would look in vain for its own state at the first update.

    Raises:
        ValueError: the run had another optimiser.
    """
    was, now = _class_name(old, "optimizer"), _class_name(new, "optimizer")
    if "optimizer" in old and was != now:
        raise ValueError(
            f"optimizer: {was} -> {now}: this run's checkpoint holds the state of {was}, and not of {now}; "
            f"continue with optimizer._target_={old['optimizer']['_target_']}, or start a new run"
        )


def check_same_shape(initial: Path, checkpoint: Path) -> None:
    """Refuse a model whose weights the checkpoint's cannot replace, before any of the two folders is loaded.

    Raises:
        ValueError: the two differ in an entry of :data:`SHAPE` that both have.
    """
    now, was = (_read_shape(folder) for folder in (initial, checkpoint / "policy"))
    both = [key for key in SHAPE if key in was and key in now]
    if listed := [f"{key}: {was[key]} -> {now[key]}" for key in both if was[key] != now[key]]:
        raise ValueError(
            f"the checkpoint {checkpoint} is of another model than model=... names ({'; '.join(listed)}): its weights "
            "do not fit; repeat the model=... that the run was started with"
        )


def experiment_option(config: Mapping[str, Any], options: Sequence[str]) -> str:
    """Return ``+experiment=...`` as a run was started with, as far as its name tells; else an empty text."""
    named = [option for option in options if option.replace("/", "_") == config.get("experiment_name")]
    return f"+experiment={named[0]}" if named else ""


def _read_shape(folder: Path) -> dict[str, Any]:
    """Entries of a model's description; none where it has no such file."""
    file = folder / "config.json"
    entries = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {key: entries[key] for key in SHAPE if key in entries}


def _class_name(config: Mapping[str, Any], key: str) -> str:
    node = config.get(key)
    return str(node.get("_target_")).rpartition(".")[2] if isinstance(node, Mapping) else "none"


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key. The run's own folder, which may be spelt in another way, is the same wherever it stands."""
    folder = config.get("run_dir")
    return {
        key: "${run_dir}" if folder is not None and value == folder else value
        for key, value in flat(of_the_run(config)).items()
        if key.rpartition(".")[2] not in NAMES
    }
