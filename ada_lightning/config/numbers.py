"""Numbers that no setting takes, whatever its kind: infinite ones, those that are none, and impossible seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ada_lightning.config.problems import origin

MAY_BE_INFINITE = frozenset(
    {
        "clip_high",
        "dual_clip",
        "every_n_tokens",
        "high",
        "importance_cap",
        "low",
        "max_generated_tokens",
        "max_grad_norm",
        "max_heldout_prompts",
        "max_improvement",
        "max_norm_ratio",
        "max_prompts",
        "max_seconds",
        "max_shift",
        "max_waste_ratio",
        "max_weight",
        "min_improvement",
        "prompt_drift_visits",
        "ratio_cap",
        "stop_logprob_gap",
    }
)
"""Limits that infinity switches off. Anything else it would turn into weights or rewards that are infinite too."""
JUDGED = ("ada_lightning.", "callbacks.", "torch.", "lightning.")
"""Beginnings of ``_target_``: parts of one's own may mean something by infinity."""
MAX_SEED = 2**32 - 1
"""What NumPy's generator takes, and so ``seed_everything``."""


def number_errors(cfg: DictConfig) -> dict[str, str]:
    """Find numbers that are not finite where no setting means something by it, and seeds out of range.

    Args:
        cfg: the composed configuration.

    Returns:
        Message by dotted key; each names the key where the number was written.
    """
    plain: Any = OmegaConf.to_container(cfg, resolve=False)
    found = {}
    for key, name, is_ours in _leaves("", plain, is_ours=True):
        try:
            value = OmegaConf.select(cfg, key)
        except OmegaConfBaseException:  # refers to nothing, which is reported by itself
            continue
        if is_number(value) and (reason := _problem(name, value, is_ours=is_ours)):
            found[key] = f"{origin(plain, key)}={value} {reason}"
    return found


def is_number(value: Any) -> bool:
    """Whether a value is a number; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _problem(name: str, value: float, *, is_ours: bool) -> str:
    if isinstance(value, float) and math.isnan(value):
        return "is no number, write a finite one"
    if not is_ours:
        return ""
    if name == "seed" and not 0 <= value <= MAX_SEED:
        return f"is out of range: a seed is a whole number from 0 to {MAX_SEED}"
    if isinstance(value, float) and math.isinf(value) and name not in MAY_BE_INFINITE:
        return "is infinite, write a finite number"
    return ""


def _leaves(path: str, node: Any, *, is_ours: bool, name: str = "") -> Iterator[tuple[str, str, bool]]:
    """Every value: dotted key, the name it is given by, whether a part of ours or of our libraries gets it."""
    if isinstance(node, dict):
        is_ours = _is_ours(node, is_ours)
        for key, value in node.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), value, is_ours=is_ours, name=str(key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _leaves(f"{path}.{index}", value, is_ours=is_ours, name=name)
    else:
        yield path, name, is_ours


def _is_ours(node: Mapping[str, Any], is_ours: bool) -> bool:
    target = node.get("_target_")
    return target.startswith(JUDGED) if isinstance(target, str) else is_ours
