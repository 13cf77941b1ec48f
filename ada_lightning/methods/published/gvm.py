"""GVM-RAFT: divide a step so that the gradient of its right answers varies least (arXiv:2505.02391, Proposition 1).

Claim: take n_i responses of which a share p_i is right. The variance of the mean gradient of right answers is bounded
by ``sum of G_i^2 / (p_i n_i)``. The factor ``1 / (1 + alpha / p_i^beta)`` lets go of hopeless prompts. With it the
bound is least at ``n_i ~ G_i / sqrt(p_i + alpha / p_i^(beta-1))``. Assumption: every prompt has the same weight in the
update (``loss/reduction=prompt_mean``), and the pilot's p_i and G_i are the true ones. Degenerate case: a prompt with
nothing right in its pilot gets no more; if that is so for all of them, the rest is divided equally.

Fidelity: after. Pilots are drawn in each step, kept and counted (paper: every 10 steps, dropped). G is that of the
output layer in closed form, the authors' is ``sampler/gradient_norm=embed_tokens``. The authors copy prompts for GRPO,
which weighs them by n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.core.options import option
from ada_lightning.core.protocols import GradientNorm, PolicyView
from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.checked import Check, at_least
from ada_lightning.methods.published.raft import AcceptedAdvantage, PositivesSelection
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.allocation import allocate
from ada_lightning.methods.sampling.by_tokens import LengthLearningSampler
from ada_lightning.methods.sampling.marginal_gain import allocate_by_gain
from ada_lightning.methods.sampling.planned import StagedSampler
from ada_lightning.methods.selection import AllSelection

_HOPELESS = 1e-6
"""Part of the largest weight that a prompt without any has where tokens are divided: it is served last, and evenly."""


def gvm_weight(pass_rate: float, gradient_norm: float, *, alpha: float, beta: float) -> float:
    """Share of a prompt in the budget, up to a common factor.

    Example:
        >>> [round(gvm_weight(p, 1.0, alpha=1e-3, beta=2.0), 3) for p in (0.0, 0.001, 0.032, 0.25, 1.0)]
        [0.0, 1.0, 3.976, 1.984, 1.0]
    """
    if pass_rate == 0:
        return 0.0
    return gradient_norm / math.sqrt(pass_rate + alpha / pass_rate ** (beta - 1.0))


@option("sampler", "gvm", choices={"gradient_norm": "lm_head"}, group_size="${.n_max}")
@dataclass(kw_only=True, eq=False)
class GvmSampler(LengthLearningSampler, StagedSampler):
    """GVM: a pilot, then the rest of the step by pass rates and gradient norms (arXiv:2505.02391, Proposition 1).

    Values are those of RLHFlow/GVM at d640a75, ``em/run_em.sh``: 8 pilots, 8 more per prompt. The pilot counts towards
    a prompt's share, which is the best division *given* that the pilots are drawn: ``n_i = clip(scale * w_i, num_pilot,
    n_max)``, rounded with the step's total met exactly. The paper throws the pilot away and draws all anew. It also
    looks ahead: one pilot serves the prompts of ten steps, with the policy of the first. A pilot for each step, with
    the policy that is about to be updated, is ours.

    With ``by_tokens`` the same bound, ``sum of w_i^2 / n_i``, is minimised for the step's tokens, in whole responses.

    Source:
        Yao et al., arXiv:2505.02391, Proposition 1 and Algorithm 2; authors' code ``RLHFlow/GVM`` at d640a75,
        ``stage_2_calc_sample_size.py``.
    """

    num_stages = 2

    gradient_norm: GradientNorm
    """What ``G_i`` is; ``embed_tokens`` is the authors'."""
    num_pilot: int = 8
    """Responses of each prompt's pilot (paper: 8; also 16 and 32)."""
    responses_per_prompt: int = 16
    """Mean over a step's prompts, pilots included; the total is met exactly."""
    alpha: float = 1e-3
    """How soon hard prompts are let go of; with ``beta = 2`` the share is largest at a pass rate of ``sqrt(alpha)``
    (paper: 1e-3)."""
    beta: float = 2.0
    """How sharply (paper: 2)."""
    n_max: int = 64
    """Most responses per prompt and step (ours; the authors' main script has no limit)."""
    group_size: int = 64
    """Most responses kept for the update; ``n_max``: all (selection=all or positives)."""

    def _checks(self) -> Iterator[Check]:
        yield from at_least(1, num_pilot=self.num_pilot)
        yield from super()._checks()
        yield 0 < self.alpha < math.inf, f"alpha must be positive and finite; got {self.alpha}"
        yield (
            2 <= self.beta < math.inf,
            f"beta must be at least 2 and finite, so that hopeless prompts are let go of; got {self.beta}",
        )

    def connect(self, policy: PolicyView) -> None:
        """Tell the gradient norms whose gradients they are of."""
        self.gradient_norm.connect(policy)

    def divide(self, pools: Sequence[ResponsePool], stage: int) -> list[int]:
        """Divide by the pilots; where no gradient has a length, by the pass rates alone."""
        norms = self.gradient_norm.measure(pools)
        if not any(norms):
            norms = [1.0] * len(pools)
        rates = [pool.num_positive / max(pool.num_sampled, 1) for pool in pools]
        weights = [
            gvm_weight(rate, norm, alpha=self.alpha, beta=self.beta) for rate, norm in zip(rates, norms, strict=True)
        ]
        total = self.responses_per_prompt * len(pools)
        costs = self.costs([pool.prompt.prompt_id for pool in pools])
        if costs is None:
            return allocate(weights, total, self.num_pilot, self.n_max)
        least = max(weights) * _HOPELESS or 1.0
        return allocate_by_gain(
            lambda index, n: max(weights[index], least) ** 2 / (n * (n + 1)),
            total,
            [self.num_pilot] * len(pools),
            [self.n_max] * len(pools),
            costs=costs,
        )


GVM_RAFT = known(
    Recipe(
        name="gvm_raft",
        card=Card(
            table="responses",
            changes="pilots, then shares by gradient norm and pass rate",
            needs="a gradient norm; `loss/reduction=prompt_mean`",
            cost="16 on average",
            fidelity="after",
            departs=(
                "Shares are `G / sqrt(p + a/p^(b-1))`, with G the gradient norm. Pilots are drawn in each step, kept "
                "and counted. The paper draws them every 10 steps and drops them. G is that of the output layer, in "
                "closed form; the authors' is `sampler/gradient_norm=embed_tokens`. For GRPO the authors copy prompts, "
                "which weighs them by n."
            ),
            also=("gvm_grpo",),
        ),
        checked=Comparison(
            rule="the norm of a gradient, and the shares",
            against="brute force",
            test=(
                "unit/methods/gradient_norms/test_of_policy.py::test_the_closed_form_is_the_gradient_of_the_output_layer"
            ),
            also=("gvm_grpo",),
        ),
        text="""
            GVM-RAFT++ (arXiv:2505.02391): a step's responses are divided so that the gradient of right answers varies
            least. Only right answers train, and every prompt has the same weight. Taking gradients of the output layer
            instead of the input embeddings is ours; sampler/gradient_norm=embed_tokens takes the authors'. They clip
            above at 0.28 in RAFT++, and at 0.3 to 0.4 in GVM-RAFT++.
        """,
        sampler=GvmSampler,
        selection=PositivesSelection,
        advantage=AcceptedAdvantage,
        reduction="prompt_mean",
    )
)
GVM_GRPO = known(
    Recipe(
        name="gvm_grpo",
        text="""
            GVM-GRPO (arXiv:2505.02391): a step is divided as in gvm_raft, and all of it trains with GRPO's advantage.
            The division minimises a variance in which every prompt weighs the same, so the loss averages within
            prompts. The authors copy a prompt n_i / 4 times with 4 responses each, which weighs prompts by n_i.
        """,
        sampler=GvmSampler,
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
        reduction="prompt_mean",
    )
)
