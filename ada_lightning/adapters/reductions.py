"""The options of ``loss/reduction`` as two numbers: a share of each row, and a denominator.

An own loop's update is the sum of ``advantage * log-probability`` over the tokens of its rows, over one denominator.
Rules that are no such sum (means over responses) have their share in the row. A test holds each against its class in
:mod:`ada_lightning.training.losses`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ada_lightning.core.records import KeptResponse, ResponseGroup


@dataclass(frozen=True, slots=True)
class Reduction:
    """One rule."""

    share: Callable[[ResponseGroup, KeptResponse], float]
    """What a row's advantage is multiplied by."""
    denominator: Callable[[Sequence[ResponseGroup], int], float]
    """By which the sum over all rows is divided, given the step's groups and the longest response in tokens."""


def _num_tokens(kept: KeptResponse) -> int:
    return max(len(kept.response.response_ids), 1)


def _total_tokens(groups: Sequence[ResponseGroup]) -> float:
    return float(max(sum(len(kept.response.response_ids) for group in groups for kept in group.kept), 1))


def _by_prompts(groups: Sequence[ResponseGroup], max_tokens: int) -> float:
    return float(max(len(groups), 1) * max_tokens)


RULES: Mapping[str, Reduction] = {
    "constant": Reduction(lambda group, kept: 1.0, _by_prompts),
    "prompt_mean": Reduction(lambda group, kept: 1.0 / len(group.kept), _by_prompts),
    "response_mean": Reduction(
        lambda group, kept: 1.0 / _num_tokens(kept),
        lambda groups, max_tokens: float(max(sum(len(group.kept) for group in groups), 1)),
    ),
    "token_mean": Reduction(lambda group, kept: 1.0, lambda groups, max_tokens: _total_tokens(groups)),
}
"""By their words."""
LOSSES = {
    "clipped": "constant",
    "reinforce": "constant",
    "dapo": "token_mean",
    "dr_grpo": "prompt_mean",
    "grpo": "response_mean",
    "raft_plus_plus": "response_mean",
}
"""Losses whose gradient is that of advantage times log-probability where the ratio is 1, as in the one update that a
rollout gets, with the reduction of each. Their classes load torch."""
TERMS = {"grpo": {"kl_coef": 0.04}}
"""Terms that such a loss has by itself."""
