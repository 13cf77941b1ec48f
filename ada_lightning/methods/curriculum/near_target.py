"""What MoPPS prefers: pass rates near a target (arXiv:2507.04632).

Claim: prompts of medium difficulty give most signal, and a pass rate drawn from a Beta belief finds them while it
explores. Assumption: beliefs fade as fast as the policy learns. Degenerate case: with no history all draws come from
the prior, and prompts are chosen at random.
"""

from __future__ import annotations

from collections.abc import Sequence


class NearTarget:
    """``-(p - target)^2``, which orders as :class:`~ada_lightning.methods.curriculum.usefulness.Learnability` at 1/2.

    With :class:`~ada_lightning.methods.curriculum.posterior.PosteriorSampling` it is MoPPS: draw ``r ~ Beta(a, b)`` for
    each candidate, take those with the smallest ``(r - target)^2``. The belief is the estimator's: ``estimator=ema``
    with
    ``alpha = beta = 1`` keeps ``a <- decay a + (1 - decay) + positives`` per visit, which is theirs word for word.

    Args:
        target: preferred pass rate.

    Raises:
        ValueError: ``target`` outside [0, 1].

    Source:
        Qu et al., arXiv:2507.04632; authors' code ``recipe/ours/mopps.py`` (``topk``), where a slip of precedence makes
        every update with one response per prompt add 8.

    Example:
        >>> NearTarget(target=0.5)([0.5, 0.25, 1.0])
        [-0.0, -0.0625, -0.25]
    """

    def __init__(self, *, target: float = 0.5) -> None:
        if not 0 <= target <= 1:
            raise ValueError(f"curriculum.usefulness.target must be in [0, 1]; got {target}")
        self.target = target

    def __call__(self, pass_rates: Sequence[float]) -> list[float]:
        """Return ``-(p - target)^2`` of each."""
        return [-((rate - self.target) ** 2) for rate in pass_rates]
