"""MoPPS (Qu et al., arXiv:2507.04632): the prompts whose pass rate, drawn from a fading Beta belief, is nearest to 1/2.

Equation: draw ``r ~ Beta(a, b)`` for each candidate, take those with the smallest ``(r - target)^2``; per visit
    ``a <- decay a + (1 - decay) + positives``, which is ``estimator=ema`` with ``alpha = beta = 1``, word for word.
Claim: prompts of medium difficulty give most signal, and a pass rate drawn from a Beta belief finds them while it
    explores.
Assumption: beliefs fade as fast as the policy learns.
Degenerate: with no history all draws come from the prior, and prompts are chosen at random.
Fidelity: faithful; ``recipe/ours/mopps.py`` (``topk``) of thu-rllab/MoPPS has a slip of precedence that makes every
    update with one response per prompt add 8, and it is not copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.core.options import option, option_of, preset, use
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.curriculum import PosteriorSampling
from ada_lightning.methods.estimators import EmaEstimator
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler


@option("curriculum/usefulness", "near_target")
@dataclass(kw_only=True, eq=False)
class NearTarget(Checked):
    """``-(p - target)^2``: what MoPPS prefers (arXiv:2507.04632).

    At 1/2 it orders as :class:`~ada_lightning.methods.curriculum.usefulness.Learnability`.

    Example:
        >>> NearTarget(target=0.5)([0.5, 0.25, 1.0])
        [-0.0, -0.0625, -0.25]
    """

    target: float = 0.5
    """Preferred pass rate (authors' code: 0.5)."""

    def _checks(self) -> Iterator[Check]:
        yield 0 <= self.target <= 1, f"curriculum.usefulness.target must be in [0, 1]; got {self.target}"

    def __call__(self, pass_rates: Sequence[float]) -> list[float]:
        """Return ``-(p - target)^2`` of each."""
        return [-((rate - self.target) ** 2) for rate in pass_rates]


preset(
    "curriculum",
    "mopps",
    option_of(PosteriorSampling, "curriculum").name,
    text="MoPPS: the prompts whose pass rate, drawn from their Beta belief, is nearest to 1/2 (arXiv:2507.04632; "
    "values of thu-rllab/MoPPS, recipe/ours/scripts/countdown/cd_verl_3b_topk_noinit.sh: 8 candidates per prompt "
    "of a step, for MATH 16; no share of places that goes to all prompts in turn). Theirs is estimator=ema with "
    "estimator.alpha=1, estimator.beta=1 and estimator.decay=0.5, as in +experiment=mopps.",
    choices={"usefulness": "near_target"},
    candidate_ratio=8,
    revisit_ratio=0,
)

MOPPS = known(
    Recipe(
        name="mopps",
        card=Card(
            table="prompts",
            changes="picks prompts whose drawn pass rate is nearest to 1/2",
            needs="a fading Beta history",
            cost="8 per prompt",
            fidelity="faithful",
            departs="The authors' slip for n = 1 is not copied.",
        ),
        checked=Comparison(
            rule="the fading counts",
            against="their loop, rewritten",
            test="unit/methods/curriculum/test_mopps.py::test_the_exponential_average_is_their_update",
        ),
        text="""
            MoPPS on GRPO (arXiv:2507.04632): picks prompts whose pass rate, drawn from a fading Beta belief, is nearest
            to 1/2. The belief's values are those of the authors' code (1 and 1 imagined beforehand) and scripts (decay
            0.5, 8 responses per prompt).
        """,
        estimator=use(EmaEstimator, alpha=1.0, beta=1.0, decay=0.5),
        curriculum="mopps",
        sampler=use(UniformSampler, group_size=8),
        selection="all",
        advantage="grpo",
    )
)
