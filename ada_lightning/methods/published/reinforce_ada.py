"""Reinforce-Ada as its authors have it (arXiv:2510.04996v3): a step divided by estimated pass rates, their updates.

Claim of Reinforce-Ada-Est: responses in proportion to ``p^-gamma`` weigh hard prompts as a concave objective of the
pass rate does, in one pass. Assumption: what is believed of pass rates is true. Degenerate case: equal beliefs divide
evenly. The blocks of Reinforce-Ada-Seq are in ``methods/sampling/sequential.py``.

Fidelity: ``ada_est_ema_paper`` has the paper's weights, ``ada_est_ema_implicit`` those of the public code, which is on
branch ``hanze`` of RLHFlow/Reinforce-Ada (e876f3e), not on ``main``. ``ada_seq_balance_official`` is the official rule,
``ada_seq_balance_paper_v3`` the paper's text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.core.options import option, use
from ada_lightning.core.records import Belief
from ada_lightning.methods.advantages import PoolMeanAdvantage
from ada_lightning.methods.checked import Check
from ada_lightning.methods.estimators.counting import EmaEstimator
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.allocation import allocate
from ada_lightning.methods.sampling.planned import OneShotSampler
from ada_lightning.methods.sampling.sequential import BalanceSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection


@option("sampler", "estimated", group_size="${.n_max}")
@dataclass(kw_only=True, eq=False)
class EstimatedSampler(OneShotSampler):
    """Reinforce-Ada-Est: one pass, divided by what the estimator expects of each prompt (Algorithm 1).

    A prompt gets responses in proportion to ``pass_rate^-gamma``, with a fixed total per step (arXiv:2510.04996v3).

    Where every response trains and counts the same (``official`` with ``token_mean``), the allocation is itself a
    weight: the update follows ``p^-gamma`` times the explicit weight of the advantage, for log 1/2 and 1/2 in the
    paper, 1 and 0 in the public code. An advantage that divides by the size of the pool (``exact``, ``stratified``)
    carries the whole weight itself; ``gamma`` then only decides where its variance is low.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, Algorithm 1 (its epsilon is the estimator's prior here, which keeps pass
        rates off 0) and appendix C.2. RLHFlow/Reinforce-Ada at e876f3e, which is on its branch ``hanze`` and not on
        ``main``: ``ray_trainer_ema.py`` L1014-1041.

    Example:
        >>> from ada_lightning.core.records import Belief, Prompt, ResponsePool
        >>> hard = ResponsePool(Prompt("hard", ()), slot=0, belief=Belief(1, 15))
        >>> easy = ResponsePool(Prompt("easy", ()), slot=1, belief=Belief(9, 7))
        >>> sampler = EstimatedSampler(responses_per_prompt=8, gamma=0.5, n_min=2, n_max=32, group_size=32)
        >>> sampler.plan([hard, easy])  # sqrt(1/16) to sqrt(9/16) is 1 to 3
        >>> sampler.num_to_draw(hard), sampler.num_to_draw(easy)
        (12, 4)
    """

    gamma: float = 0.5
    """Power of the pass rate: 1/2 is the paper, 1 the public code, 0 gives every prompt the same."""
    responses_per_prompt: int = 8
    """Mean over a step's prompts; the step's total is met exactly (paper: 8)."""
    n_min: int = 2
    """Fewest per prompt and step: one response alone can carry no signal (paper: no value; public code: 1)."""
    n_max: int = 32
    """Most per prompt and step (paper: no value). The public code has no limit, and its batches fill with hard prompts.
    """

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield 0 <= self.gamma < math.inf, f"gamma must be 0 (uniform) or positive, and finite; got {self.gamma}"

    def divide(self, beliefs: Sequence[Belief], total: int) -> list[int]:
        """Divide in proportion to ``mean ** -gamma``, inside the bounds."""
        lowest = min(belief.mean for belief in beliefs)
        # Relative to the lowest pass rate a weight is at most 1, so that no power overflows.
        weights = [(lowest / belief.mean) ** self.gamma for belief in beliefs]
        return allocate(weights, total, self.n_min, self.n_max)


ADA_EST_EMA_PAPER = known(
    Recipe(
        name="ada_est_ema_paper",
        card=Card(
            table="responses",
            changes="as `ada_est_ema`, with the paper's weights",
            needs="history",
            cost="8 on average",
            fidelity="after",
            departs="As Algorithm 1. Bounds on the number are ours, since the paper names no values.",
        ),
        text="""
            Reinforce-Ada-Est as in the paper's Algorithm 1 (arXiv:2510.04996v3): hybrid weighting for the log
            objective. The number of responses brings 1/sqrt(p), and each response is multiplied by 1/sqrt(pool mean).
            Bounds on the number are ours: the paper names no values. There is no correction by the engine's
            log-probabilities (loss.importance_cap=0).
        """,
        estimator=EmaEstimator,
        sampler=EstimatedSampler,
        selection=AllSelection,
        advantage=PoolMeanAdvantage,
        reduction="token_mean",
        settings={"advantage.weight_power": 0.5, "loss.importance_cap": 0.0},
    )
)
ADA_EST_EMA_IMPLICIT = known(
    Recipe(
        name="ada_est_ema_implicit",
        card=Card(
            table="responses",
            changes="as `ada_est_ema`, with the weights of the public code",
            needs="history",
            cost="8 on average",
            fidelity="after",
            departs=(
                "The code is on branch `hanze` of RLHFlow/Reinforce-Ada (e876f3e), not on `main`. It gives each prompt "
                "1 response and divides the rest by 1/p; here 1 is a lower bound. A lone right answer has the "
                "advantage 1 there and 0 here."
            ),
        ),
        text="""
            Reinforce-Ada-Est as in the public code: only the number of responses carries the weight 1/p. The code is
            RLHFlow/Reinforce-Ada, branch hanze at e876f3e, not main: verl/trainer/ppo/ray_trainer_ema.py. It is the
            ablation of the paper's appendix C.2. There are two differences. The code gives each prompt 1 and divides
            the rest by 1/p; here 1 is a lower bound. A lone right answer has the advantage 1 there and 0 here. n_max is
            the total of a step of 32 prompts: no limit. The code has no correction by the engine's log-probabilities
            (loss.importance_cap=0).
        """,
        estimator=EmaEstimator,
        sampler=use(EstimatedSampler, gamma=1.0, n_min=1, n_max=256),
        selection=AllSelection,
        advantage=PoolMeanAdvantage,
        reduction="token_mean",
        settings={"loss.importance_cap": 0.0, "rollout.positive_threshold": 0.7},
    )
)
ADA_SEQ_BALANCE_OFFICIAL = known(
    Recipe(
        name="ada_seq_balance_official",
        card=Card(
            table="responses",
            changes="the balanced rule of the official code, baseline from the pool",
            cost="8 to 32",
            fidelity="faithful to the code",
            departs="Compared with RLHFlow/Reinforce-Ada at 05be605.",
        ),
        checked=Comparison(
            rule="the expected update of the rule as published",
            against="enumeration",
            test=(
                "unit/training/test_expected_update.py::test_the_official_rule_multiplies_by_difficulty_and_the_explicit_weight_doubles_it"
            ),
            also=("ada_seq_balance_paper_v3",),
        ),
        text="""
            The balanced rule of the official code: 4 rounds of 8, positive above 0.7. The first generated responses are
            kept, and a shortage is filled with positives first. The advantage is the reward minus the pool mean,
            without the standard deviation. The loss is a token mean with a dual clip of 10 and no correction for the
            engine. The code is RLHFlow/Reinforce-Ada at 05be605: verl/trainer and scripts/run_reinforce_ada.sh.
        """,
        sampler=use(BalanceSampler, samples_per_round=8),
        selection=BalancedSelection,
        advantage=PoolMeanAdvantage,
        reduction="token_mean",
        settings={"loss.dual_clip": 10.0, "loss.importance_cap": 0.0, "rollout.positive_threshold": 0.7},
    )
)
ADA_SEQ_BALANCE_PAPER_V3 = known(
    Recipe(
        name="ada_seq_balance_paper_v3",
        card=Card(
            table="responses",
            changes="the balanced rule of the paper's text, weighed by 1/p",
            cost="4 to 32",
            fidelity="faithful to the text",
            departs="The paper's tables come from the rule without 1/p, which is `ada_seq_balance_official`.",
        ),
        text="""
            Reinforce-Ada-Seq-balance as in the text of arXiv:2510.04996v3: blocks of N_max / 8 (appendix D), reward
            minus pool mean times 1/p (below Algorithm 2), token mean. The paper's tables come from the rule without
            1/p: ada_seq_balance_official. The paper has no correction by the engine's log-probabilities
            (loss.importance_cap=0).
        """,
        sampler=use(BalanceSampler, samples_per_round=4),
        selection=BalancedSelection,
        advantage="paper_v3",
        reduction="token_mean",
        settings={"loss.importance_cap": 0.0, "rollout.positive_threshold": 0.7},
    )
)
