"""Whether a group holds anything to compare a response with; a group of one has a gradient of zero everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ada_lightning.config.setup import Setup
from ada_lightning.core.protocols import Advantage, Trait


def group_errors(run: Setup) -> Iterator[str]:
    """Yield one message per problem. Parts that cannot be made are left alone: they are reported by themselves."""
    advantage, sampler, selection = (run.part(key) for key in ("advantage", "sampler", "selection"))
    if not isinstance(advantage, Advantage):
        return
    drawn_key, num_drawn = _most_drawn(sampler)
    kept_key, num_kept = _most_kept(selection)
    traits = advantage.traits
    # One response that is kept of a rule that needs both classes is what the check of estimators looks at.
    is_left = num_kept == 1 and Trait.NEEDS_BOTH_CLASSES in traits
    if num_drawn == 1 and traits & {Trait.COMPARES_DRAWN, Trait.COMPARES_KEPT} and not is_left:
        yield _message(drawn_key, advantage, "drawn")
    elif num_kept == 1 and Trait.COMPARES_KEPT in traits:
        yield _message(kept_key, advantage, "kept")


def _message(key: str, rule: Any, what: str) -> str:
    return (
        f"{key} = 1: {type(rule).__name__} compares the responses of a prompt with each other, and where one alone is "
        f"{what} every advantage is zero and nothing trains; use sampler.group_size=2 or more, or "
        "advantage=history_baseline, which compares with what is remembered of the prompt"
    )


def _most_drawn(sampler: Any) -> tuple[str, int | None]:
    from ada_lightning.methods.sampling import UniformSampler

    name = "group_size" if type(sampler) is UniformSampler else "n_max"
    number = getattr(sampler, name, None)
    return f"sampler.{name}", number if isinstance(number, int) else None


def _most_kept(selection: Any) -> tuple[str, int | None]:
    inner = getattr(selection, "selection", selection)  # of one that drops whole groups
    number = getattr(inner, "group_size", None)
    return "selection.group_size", number if isinstance(number, int) else None
