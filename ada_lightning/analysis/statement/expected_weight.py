"""With which factor on grad p an update is expected to move a prompt: exact sums over the ends of its sampling."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import Advantage, Selection
from ada_lightning.core.records import Prompt, Response, ResponseGroup, ResponsePool
from ada_lightning.core.stopping.paths import Point, end_probability, ends
from ada_lightning.core.stopping.rule import StoppingRule

_NEGLIGIBLE = 1e-9
"""Ends less likely than this are left out: with 1000 responses there are thousands of them."""


def expected_weights(
    advantage: Advantage, selection: Selection, rule: StoppingRule, pass_rates: Sequence[float]
) -> list[float]:
    """Factor on grad p of a prompt's update, in expectation over its sampling, for each pass rate.

    The scores of positives have mean ``grad p / p``, those of negatives ``-grad p / q``, and neither stopping nor
    selection looks at more than the class, so the factor is ``E[sum of A over kept positives] / p - E[sum of A over
    kept negatives] / q``. It is the sum over a prompt's kept responses, not their mean.

    Args:
        advantage: a function of counts and class. One of the first round is not: its counts are those of the pool here.
            Nor is one of a whole rollout that compares prompts with each other.
        selection: a choice within each class that does not look at the responses.
        rule: by which sampling ends.
        pass_rates: strictly between 0 and 1.

    Example:
        >>> from ada_lightning.methods.advantages import LeaveOneOutAdvantage
        >>> from ada_lightning.methods.selection import AllSelection
        >>> from ada_lightning.core.stopping import FixedRule
        >>> [round(x, 4) for x in expected_weights(LeaveOneOutAdvantage(), AllSelection(), FixedRule(4), [0.1, 0.5])]
        [4.0, 4.0]
    """
    likely = [end for end in ends(rule) if max(end_probability(rule, end, rate) for rate in pass_rates) >= _NEGLIGIBLE]
    groups = [_group(selection, rule, end) for end in likely]
    sums = [_class_sums(group, values) for group, values in zip(groups, advantage.assign(groups), strict=True)]
    return [
        sum(
            end_probability(rule, end, rate) * (of_positives / rate - of_negatives / (1.0 - rate))
            for end, (of_positives, of_negatives) in zip(likely, sums, strict=True)
        )
        for rate in pass_rates
    ]


def _class_sums(group: ResponseGroup, advantages: Sequence[float]) -> tuple[float, float]:
    """Add up the advantages of kept positives, and of kept negatives."""
    pairs = list(zip(group.kept, advantages, strict=True))
    positives, negatives = ([a for kept, a in pairs if kept.response.is_positive is label] for label in (True, False))
    return sum(positives), sum(negatives)


def _group(selection: Selection, rule: StoppingRule, end: Point) -> ResponseGroup:
    """What is kept of a pool that ended there."""
    pool = ResponsePool(Prompt("p", (), prompt_ids=(0,)), slot=0)
    for index in range(sum(end)):
        is_positive = index < end[0]
        pool.add(
            Response(
                prompt_id="p", sample_index=index, round_index=0, response_ids=(0,), sampling_logprobs=(0.0,), text="",
                is_truncated=False, reward=float(is_positive), is_positive=is_positive, policy_version=0,
            )
        )  # fmt: skip
    pool.rule = rule
    return ResponseGroup(pool, selection.select(pool))
