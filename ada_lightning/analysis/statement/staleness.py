"""What an update follows if it learns from the responses of an older policy.

Counts, stopping and selection are the older policy's, so what a prompt weighs is ``f'`` of the older pass rate. Given
the counts, the responses of a class are independent draws of the older policy; their scores are the current one's.
"""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.core.protocols import Advantage
from ada_lightning.training.losses import (
    DivergencePolicyLoss,
    GeometricRejection,
    ImportanceCorrection,
    PolicyGradientLoss,
    PolicyLoss,
    SequenceRejection,
    SequenceTruncation,
)
from ada_lightning.training.losses.importance import Rejection
from ada_lightning.training.losses.ratios import RatioClippingLoss


def staleness_lines(
    max_staleness: int, advantage: Advantage, loss: PolicyLoss, *, num_updates: int, is_centred: bool
) -> Iterator[str]:
    """Say what a lag of so many steps makes of the update, and what bounds it; nothing where there is none.

    Args:
        max_staleness: steps that the policy which samples lags behind.
        advantage: of the run.
        loss: of the run.
        num_updates: with one rollout.
        is_centred: whether the advantages of what a prompt keeps add up to 0.
    """
    if not max_staleness:
        return
    steps = "step" if max_staleness == 1 else "steps"
    yield (
        f"rollout.max_staleness = {max_staleness}: the policy of {max_staleness} {steps} before samples, stops and "
        "selects: a prompt weighs f'(p_old), by its pass rate at that time"
    )
    weighs_responses = isinstance(_importance(loss), SequenceTruncation | SequenceRejection)
    yield f"{_followed(loss)}{'' if num_updates == 1 else ', by the first update with a rollout'}"
    if not weighs_responses and not is_centred:
        yield (
            f"{type(advantage).__name__}: an error of its baseline no longer cancels, because the scores of an older "
            "policy's responses do not average to 0"
        )


def has_trust_region(loss: PolicyLoss, *, num_updates: int) -> bool:
    """Whether something bounds, in both directions, how far the policy may move from the one that sampled.

    With several updates of a rollout the clip holds from the second on; the way to the first is then left to the
    importance weights, as in the decoupled objective (arXiv:2110.00641).
    """
    if isinstance(loss, DivergencePolicyLoss) or (isinstance(loss, RatioClippingLoss) and loss.anchor == "behaviour"):
        return True
    importance = _importance(loss)
    if importance is None:
        return False
    is_clipped_later = num_updates > 1 and isinstance(loss, RatioClippingLoss)
    return is_clipped_later or (isinstance(importance, Rejection) and importance.floor > 0)


def _importance(loss: PolicyLoss) -> ImportanceCorrection | None:
    """Return the correction in effect, if there is one."""
    return loss.importance if isinstance(loss, PolicyGradientLoss) and loss.importance_cap > 0 else None


def _followed(loss: PolicyLoss) -> str:
    importance = _importance(loss)
    if isinstance(importance, SequenceTruncation | SequenceRejection):
        return (
            "the update follows f'(p_old) grad p_new where the ratio of a whole response is within its bounds "
            "(loss.importance); responses beyond are missing"
        )
    if isinstance(importance, GeometricRejection):
        return (
            "the update follows f'(p_old) times the covariance of being right and the score under the policy that "
            "sampled, which is f'(p_old) grad p_new only as far as the two policies agree"
        )
    return (
        "the update follows f'(p_old) grad p_new only as far as single tokens' ratios make up for the older policy: "
        "the ratio of what came before a token is left out (arXiv:2512.23075), and what is clipped has no gradient"
    )
