"""Who takes part in the field, with the settings that make each what its authors describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """One contestant."""

    experiment: str
    """Name in ``conf/experiment``."""
    settings: tuple[str, ...] = ()
    """What differs from that file."""
    updates: int = 1
    """Updates with one rollout, which then has as many times the prompts: an update is made of as many responses."""
    tuned_as_on_first: str = ""
    """On the first model, the method whose learning rate and prompts per update it takes; empty: it is tuned itself."""


METHODS: Mapping[str, Method] = {
    "grpo_n4": Method("grpo", ("sampler.group_size=4",)),
    "grpo_n4_4_updates": Method("grpo", ("sampler.group_size=4",), updates=4, tuned_as_on_first="grpo_n4"),
    "grpo_n8": Method("grpo", ("sampler.group_size=8",)),
    "grpo_n16": Method("grpo", ("sampler.group_size=16",)),
    # The refill alone: responses are far from the length limit, so a penalty for coming near it would change nothing.
    "dapo_refill": Method("grpo", ("sampler.group_size=8", "refill=dynamic", "loss/reduction=token_mean")),
    "pods": Method("pods"),
    "vip": Method("vip"),
    "ada_seq_pos_official": Method(
        "ada_seq_pos", ("advantage=official", "loss/reduction=token_mean", "sampler.samples_per_round=8")
    ),
    # Committed runs, which are found again by their settings, had loss.importance_cap=2 loss.dual_clip=.inf.
    "ada_seq_balance_official": Method("ada_seq_balance_official"),
    "ada_seq_balance": Method("ada_seq_balance"),
    "ada_est_ema": Method("ada_est_ema"),
    "speed_rl": Method("speed_rl"),
    "mopps": Method("mopps"),
    "ada": Method("ada"),
    "ada_4_updates": Method("ada", updates=4),
    "ada_drift": Method("ada", ("estimator.drift_visits=256",)),
    "ada_thinned": Method("ada", ("estimator.drift_visits=256", "selection=thinned")),
    "ada_thinned_4_updates": Method("ada", ("estimator.drift_visits=256", "selection=thinned"), updates=4),
    # What experiment=ada_similar is; written out, because committed runs are found again by their settings.
    "ada_similar": Method("ada", ("estimator=similar_prompts", "curriculum=expected")),
    "ada_similar_4_updates": Method("ada", ("estimator=similar_prompts", "curriculum=expected"), updates=4),
    "ada_similar_thinned_4_updates": Method(
        "ada", ("estimator=similar_prompts", "curriculum=expected", "selection=thinned"), updates=4
    ),
    # GRPO's groups, scaling and baseline on the prompts that ada_similar would choose: what the choice alone does.
    "grpo_chosen_4_updates": Method(
        "grpo", ("sampler.group_size=4", "estimator=similar_prompts", "curriculum=expected"), updates=4
    ),
    "ada_n2": Method("ada", ("sampler.group_size=2",)),
    "ada_n1": Method("ada", ("sampler.group_size=1",)),
    "ada_n1_4_updates": Method("ada", ("sampler.group_size=1",), updates=4, tuned_as_on_first="ada_n1"),
}
