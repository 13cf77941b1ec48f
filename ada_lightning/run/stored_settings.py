"""Settings as a run's folder holds them, with its parts by the names that they have now."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

PACKAGE = "ada_lightning."
MOVED = {
    "advantages": "methods.advantages",
    "attention": "training.attention",
    "curriculum": "methods.curriculum",
    "estimators": "methods.estimators",
    "evaluation": "analysis.evaluation",
    "gradient_norms": "methods.gradient_norms",
    "losses": "training.losses",
    "models": "training.models",
    "models.sentence_encoder": "methods.estimators.sentence_encoder",
    "objectives": "methods.objectives",
    "offline": "analysis.offline",
    "pass_rates": "methods.pass_rates",
    "policy": "training.policy",
    "refill": "methods.refill",
    "rollout.host": "rollout.engines.host",
    "rollout.engines.own_process.OwnProcess": "rollout.engines.process_pool.ProcessPool",
    "rollout.own_process.OwnProcess": "rollout.engines.process_pool.ProcessPool",
    "rollout.ray_pool": "rollout.engines.ray_pool",
    "rollout.schedule": "core.schedule",
    "rollout.vllm_engine": "rollout.engines.vllm_engine",
    "rollout.weight_transfer": "rollout.engines.weight_transfer",
    "sampling": "methods.sampling",
    "selection": "methods.selection",
    "token_masks": "training.token_masks",
    "types": "core.records",
    "updates": "training.updates",
}
"""Where the parts that settings name stood in version 0.1, and where they stand since, below :data:`PACKAGE`."""

CALLBACK = re.compile(r"callbacks\.\w+\.[A-Z]\w*")
"""A callback by the name that it had in settings as long as there was no package to install."""
GONE = frozenset({"ada_lightning.callbacks.rollout_table.RolloutTable"})
"""Parts that settings may name and that are no more, since others do what they did."""


def read_settings(file: Path) -> Any:
    """Read stored settings.

    Returns:
        What the YAML holds, plain; a mapping where nobody damaged it.

    Raises:
        OSError, UnicodeDecodeError, RecursionError, yaml.YAMLError: it cannot be read.
    """
    return with_present_names(yaml.safe_load(file.read_text(encoding="utf-8")))


def with_present_names(node: Any) -> Any:
    """Put the present names of parts in the place of earlier ones, at whatever depth; leave out what is gone.

    Example:
        >>> with_present_names({"_target_": "ada_lightning.sampling.Uniform", "of": ["ada_lightning.types.A"]})
        {'_target_': 'ada_lightning.methods.sampling.Uniform', 'of': ['ada_lightning.core.records.A']}
    """
    if isinstance(node, dict):
        return {key: with_present_names(value) for key, value in node.items() if not _is_gone(value)}
    if isinstance(node, list):
        return [with_present_names(item) for item in node]
    if isinstance(node, str) and CALLBACK.fullmatch(node):
        return PACKAGE + node
    if isinstance(node, str) and re.fullmatch(r"ada_lightning(\.\w+)+", node):
        return _present_name(node)
    return node


def _is_gone(node: Any) -> bool:
    return isinstance(node, dict) and with_present_names(node.get("_target_")) in GONE


def _present_name(name: str) -> str:
    parts = name.removeprefix(PACKAGE).split(".")
    for length in range(len(parts), 0, -1):
        if moved := MOVED.get(".".join(parts[:length])):
            return PACKAGE + ".".join([moved, *parts[length:]])
    return name
