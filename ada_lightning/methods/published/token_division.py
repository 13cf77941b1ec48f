"""Tokens divided so that the gradient varies least: ``n ~ sqrt(p (1-p) / length)`` (after DUET, arXiv:2605.08441).

Claim: of all divisions of the same expected tokens this one gives the gradient least variance. Assumption: pass rates
and lengths of earlier visits still hold; a history baseline outweighs the group. Degenerate case: a prompt's first
visits are uniform. The same is to be had for others by ``sampler.by_tokens=true`` of ``vip``, ``knapsack`` and ``gvm``.

Fidelity: after. It takes p (1-p) instead of the spread of advantage times log-probability, and whole numbers by gain
per token. There is no early end of responses, and advantages have no weights by n.
"""

from __future__ import annotations

from ada_lightning.core.options import use
from ada_lightning.methods.advantages import HistoryBaselineAdvantage
from ada_lightning.methods.estimators import BetaHistory
from ada_lightning.methods.published.vip import VipSampler
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.selection import AllSelection


class KnownBaselineVariance:
    """``1 / n``: reward minus an expectation that no response of the group has a part in.

    That of ``advantage=history_baseline`` as far as its belief outweighs the group. With a cost of each response its
    division is ``n ~ sigma / sqrt(cost)``.

    Source:
        Neyman 1934; with tokens as cost DUET, arXiv:2605.08441.

    Example:
        >>> KnownBaselineVariance()(4), KnownBaselineVariance().gain(4)
        (0.25, 0.05)
    """

    fewest = 1

    def __call__(self, num_responses: int) -> float:
        """For 1 response or more."""
        return 1.0 / num_responses

    def gain(self, num_responses: int) -> float:
        """``1/n - 1/(n+1)``, without the cancellation."""
        return 1.0 / (num_responses * (num_responses + 1))


TOKEN_DIVISION = known(
    Recipe(
        name="token_division",
        card=Card(
            table="responses",
            changes="divides a fixed total of *tokens* for the least gradient variance",
            needs="pass rates and lengths of earlier visits",
            cost="1 to 32; at most the expected tokens of 8 each",
            fidelity="after",
            departs=(
                "After DUET (arXiv:2605.08441): n ~ sqrt(p (1-p) / length). DUET takes the spread of advantage times "
                "log-probability instead of p (1-p). Whole numbers follow from the gain per token. Responses do not "
                "end early, and there are no weights by n. `sampler.by_tokens=true` does the same for `vip`, "
                "`knapsack` and `gvm`."
            ),
        ),
        checked=Comparison(
            rule="DUET's example, and the best of all divisions that cost as little",
            against="brute force",
            test="unit/methods/sampling/test_by_tokens.py::test_no_division_that_costs_as_little_is_worth_more",
        ),
        text="""
            Divides tokens so that the gradient varies least: n ~ sqrt(p (1 - p) / length), as DUET does
            (arXiv:2605.08441), in exact whole numbers. Pass rates and lengths are those of earlier visits. DUET takes
            the spread of advantage times log-probability instead of p (1 - p). It weighs advantages by n over its mean,
            and ends responses early. None of that is here. A prompt's first visits are uniform, so give it more than
            one epoch. Tokens count: compare by rollout/generated_tokens.
        """,
        estimator=BetaHistory,
        sampler=use(VipSampler, variance=use(KnownBaselineVariance), n_min=1, by_tokens=True),
        selection=AllSelection,
        advantage=HistoryBaselineAdvantage,
        reduction="prompt_mean",
    )
)
