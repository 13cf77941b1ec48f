"""Finds keys of a configuration that nothing reads, by the signature of the class that ``_target_`` names."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ada_lightning.core.checks import similar
from ada_lightning.core.options import locate

HYDRA_KEYS = frozenset({"_target_", "_partial_", "_recursive_", "_convert_", "_args_"})
WITHOUT_EFFECT = {
    "trainer.log_every_n_steps": "has no effect: every update is logged (a row of metrics.csv, a point in MLflow); "
    "leave it out"
}
"""Arguments of components of others that nothing here would act on, and why."""
GROUPS_OF_COMPONENTS = ("callbacks", "logger", "token_masks")
"""Nodes whose every child is a component of its own."""


def unknown_keys(plain: Mapping[str, Any]) -> dict[str, str]:
    """Find every key next to a ``_target_`` that is not a parameter of its class, and arguments that are no component.

    Returns:
        Message by dotted key; it names the nearest key that something reads.
    """
    return dict(_unknown(plain))


def unknown_key(path: str, candidates: Collection[str], owner: str) -> str:
    """Spell one message about an unknown key.

    Example:
        >>> unknown_key("sampler.k_poss", ["k_pos", "k_neg"], "BalanceSampler")
        'unknown key sampler.k_poss; did you mean k_pos?'
        >>> unknown_key("sampler.temperature", ["k_pos", "k_neg"], "BalanceSampler")
        'unknown key sampler.temperature; BalanceSampler takes: k_neg, k_pos'
    """
    near = similar(path.rpartition(".")[2], sorted(candidates), n=1)
    way_out = f"did you mean {near[0]}?" if near else f"{owner} takes: {', '.join(sorted(candidates)) or 'nothing'}"
    return f"unknown key {path}; {way_out}"


def accepted_keys(target: str) -> frozenset[str] | None:
    """Return the parameter names of a class or function, or None where it accepts any name.

    Raises:
        ImportError, AttributeError: the name does not exist.
    """
    try:
        parameters = inspect.signature(locate(target)).parameters.values()
    except ValueError:  # some built-in functions do not tell
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL)


def _unknown(plain: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in plain.items():
        yield from _unknown_below(str(key), value)
        if key in GROUPS_OF_COMPONENTS and isinstance(value, dict):
            yield from _not_components(key, value)


def _not_components(group: str, children: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    names = [name for name, node in children.items() if isinstance(node, dict) and "_target_" in node]
    for path, node in ((f"{group}.{name}", node) for name, node in children.items() if name not in names):
        if isinstance(node, dict):
            yield path, f"{unknown_key(path, names, group)} (it has no _target_)"
        else:
            spelt = "null" if node is None else node
            yield path, f"{path}={spelt} is not a part with settings; to leave it out write ~{path}"


def _unknown_below(path: str, node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _unknown_below(f"{path}.{index}", item)
    elif isinstance(node, dict):
        yield from _unknown_arguments(path, node)
        for key, value in node.items():
            yield from _unknown_below(f"{path}.{key}", value)


def _unknown_arguments(path: str, node: dict[Any, Any]) -> Iterator[tuple[str, str]]:
    target = node.get("_target_")
    if not isinstance(target, str) or "${" in target or target == "???":
        return
    try:
        accepted = accepted_keys(target)
    except (ImportError, AttributeError) as error:
        yield f"{path}._target_", f"{path}._target_ = {target} cannot be loaded: {error}"
        return
    if accepted is not None:
        for key in node.keys() - HYDRA_KEYS - accepted:
            yield f"{path}.{key}", unknown_key(f"{path}.{key}", accepted, target.rpartition(".")[2])


FAMILIAR = {
    "learning_rate": "optimizer.lr",
    "batch_size": "data.prompts_per_step",
    "train_batch_size": "data.prompts_per_step",
    "ppo_epochs": "data.epochs_per_rollout",
    "num_iterations": "data.epochs_per_rollout",
    "num_generations": "sampler.group_size",
    "max_steps": "num_steps",
    "total_training_steps": "num_steps",
    "max_completion_length": "rollout.sampling.max_new_tokens",
    "max_response_length": "rollout.sampling.max_new_tokens",
    "max_prompt_length": "data.max_prompt_tokens",
    "beta": "loss.kl_coef",
    "kl": "loss.kl_coef",
    "kl_loss_coef": "loss.kl_coef",
    "entropy_coeff": "loss.entropy_coef",
    "output_dir": "run_dir",
    "resume_from_checkpoint": "ckpt",
}
"""Settings by the names that they have in TRL and verl."""
_MOST_PLACES = 3
"""A name that stands in more of them tells nothing."""


def elsewhere(config: Mapping[str, Any], name: str) -> list[str]:
    """Return the keys of a composed configuration that may be meant by a name that is not where it was looked for.

    Args:
        config: composed, as plain mappings; Hydra's own part is passed over.
        name: the last part of the key that somebody wrote.

    Returns:
        Dotted keys; none where nothing has the name, or more than three do.

    Example:
        >>> config = {"optimizer": {"lr": 1e-5}, "sampler": {"group_size": 4}}
        >>> elsewhere(config, "group_size"), elsewhere(config, "learning_rate"), elsewhere(config, "beta")
        (['sampler.group_size'], ['optimizer.lr'], [])
    """
    keys = [key for key in _dotted(config) if not key.startswith("hydra")]
    found = [key for key in keys if key == FAMILIAR.get(name) or key.rpartition(".")[2] == name]
    return found if len(found) <= _MOST_PLACES else []


def _dotted(node: Any, above: str = "") -> Iterator[str]:
    """Yield every key from the top on, those within lists left out."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield f"{above}{key}"
            yield from _dotted(value, f"{above}{key}.")
