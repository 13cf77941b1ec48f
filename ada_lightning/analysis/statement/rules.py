"""By which stopping rules a sampler ends its prompts, asked before any response is drawn."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import Sampler
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.core.stopping.rule import StoppingRule

_STRENGTH = 20.0
"""Responses that the beliefs of :func:`rules_by_pass_rate` are worth: as much as a history that has been seen often."""


def rule_alone(sampler: Sampler, *, is_seen: bool = False) -> StoppingRule | None:
    """Return the rule of a prompt alone in its step, of unknown pass rate; None if not its counts decide.

    Args:
        sampler: asked to plan, as before every step.
        is_seen: whether the prompt came before: some samplers draw more at a first visit.
    """
    pool = ResponsePool(Prompt("alone", ()), slot=0, belief=Belief(is_seen=is_seen))
    sampler.plan([pool])
    return sampler.end(pool).rule


def rules_by_pass_rate(sampler: Sampler, pass_rates: Sequence[float]) -> list[StoppingRule | None]:
    """Return the rule of each prompt of a step that holds one prompt of each pass rate, all well known."""
    pools = [
        ResponsePool(
            Prompt(f"p{slot}", ()),
            slot,
            belief=Belief(_STRENGTH * rate, _STRENGTH * (1 - rate), _STRENGTH, _STRENGTH * rate, is_seen=True),
        )
        for slot, rate in enumerate(pass_rates)
    ]
    sampler.plan(pools)
    return [sampler.end(pool).rule for pool in pools]
