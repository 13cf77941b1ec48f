"""Registers the estimator ``ada`` with verl; the entry point of the group ``verl.plugins`` names this module.

verl loads it in each of its processes, and says nothing where that fails: the manager of
:mod:`ada_lightning.adapters.verl.worker` looks whether it is there.
"""

from __future__ import annotations

from typing import Any

from ada_lightning.adapters.tested import check_version

check_version("verl", (0, 9), (0, 10), install="install this package into verl's environment, with --no-deps")

from verl.trainer.ppo.core_algos import register_adv_est  # noqa: E402 - after the check

NAME = "ada"
"""``algorithm.adv_estimator``."""


@register_adv_est(NAME)
def advantage_is_the_reward(token_level_rewards: Any, response_mask: Any, **others: Any) -> tuple[Any, Any]:
    """Return each row's reward as the advantage of each of its tokens: the worker has put it there.

    Args:
        token_level_rewards: a row's lies on its last token. Shape ``(B, T)``.
        response_mask: 1 where a token trains. Shape ``(B, T)``.
        others: what other estimators ask for.

    Returns:
        Advantages and returns, which are the same. Shapes ``(B, T)``.
    """
    advantages = token_level_rewards.sum(-1, keepdim=True) * response_mask
    return advantages, advantages
