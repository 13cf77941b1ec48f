"""Where a setting stands that was looked for in another place, or by the name that it has in another project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
