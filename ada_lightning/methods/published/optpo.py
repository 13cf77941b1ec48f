"""After OptPO: sample a prompt until the majority of its answers is settled, and take that majority for the label.

Paper: OptPO, arXiv:2512.02882, on test-time reinforcement learning by majority votes (TTRL, arXiv:2504.16084): a
Bayesian sequential probability ratio test between the two most frequent answers ends sampling; the responses drawn
train, with 1 for those that give the majority's answer. Claim: 30-50 % fewer tokens than a fixed number of votes, for
the same accuracy. Assumption: wrong answers scatter: the model is right more often than it gives any one wrong answer.
Degenerate case: where a wrong answer is the majority it is rewarded, and where all answers differ the first one is.
Fidelity: after. Thresholds are ours; the number of candidate answers is that of the answers seen.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.core.options import option
from ada_lightning.core.protocols import PoolEnd, Trait
from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.checked import Check
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.blocks import BlockSampler
from ada_lightning.methods.selection import AllSelection


@option("sampler", "optpo", group_size="${.n_max}")
@dataclass(kw_only=True, eq=False)
class OptPoSampler(BlockSampler):
    """Sample until the majority of the answers is settled; the majority is the label (after arXiv:2512.02882).

    Blocks of ``samples_per_round`` until the leading answer is ahead by enough, or ``n_max`` responses are in. Needs no
    reference answers: graders are asked for the answer of a response
    (:attr:`~ada_lightning.core.records.Verdict.answer`), and their rewards are replaced before anything trains on or
    learns from them. So training figures such as ``rollout/reward_first_round`` say how often responses agree; held-out
    ones keep the true reward.

    What is the paper's: the test, its two hypotheses, the cap, the labels. There is no public code; ours are

    - ``vote_accuracy``, ``threshold`` and the block size, for which no values are known to us;
    - m, the number of candidate answers: the distinct ones seen so far, at least 2. More of them make each vote of lead
      worth more, as the model of votes has it; the threshold is then no exact bound on the error;
    - a response without an answer does not vote and gets 0; of equally frequent answers that which came first is the
      label, which happens at ``n_max`` only.

    Example:
        >>> from ada_lightning.core.records import Prompt, ResponsePool
        >>> sampler = OptPoSampler(vote_accuracy=0.7, threshold=99, samples_per_round=4, n_max=32, group_size=32)
        >>> sampler.num_to_draw(ResponsePool(Prompt("x", ()), slot=0))
        4
    """

    traits = frozenset({Trait.GIVES_REWARDS, Trait.READS_ANSWERS})

    vote_accuracy: float = 0.7
    """Probability p0 of the true majority's answer in one response, in (1/2, 1) (value ours)."""
    threshold: float = 99
    """Odds of leader against runner-up that end sampling, above 1; 99: about 1 % error (value ours)."""
    group_size: int = 32
    """Most responses kept for the update; ``n_max``: all (selection=all)."""

    def _checks(self) -> Iterator[Check]:
        yield (
            0.5 < self.vote_accuracy < 1,
            f"vote_accuracy must be in (0.5, 1), or a lead of votes would be no evidence; got {self.vote_accuracy}",
        )
        yield 1 < self.threshold < math.inf, f"threshold must be above 1 and finite, as odds; got {self.threshold}"
        yield from super()._checks()

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Say whether the majority is settled, with 1 for each response that gives the majority's answer, else 0."""
        answers = [response.answer for response in pool.responses]
        label, log_odds = majority(answers, vote_accuracy=self.vote_accuracy)
        rewards = [float(answer is not None and answer == label) for answer in answers]
        return PoolEnd(is_resolved=log_odds > math.log(self.threshold), rewards=rewards)

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Warn of a step without any answer, which trains nothing."""
        if not any(response.answer is not None for pool in pools for response in pool.responses):
            warnings.warn(
                "no response of this step has an answer, so there is no majority and nothing to train on: does the "
                "reward tell answers (Verdict.answer), and does its extraction find any?",
                RuntimeWarning,
                stacklevel=2,
            )


def majority(answers: Sequence[str | None], *, vote_accuracy: float) -> tuple[str | None, float]:
    """The leading answer, of equals that which came first, and the log odds that it and not the runner-up is consensus.

    Suppose answer j is the consensus. Then a vote is j with probability p0, and otherwise uniform over the m - 1
    others. So each vote of lead is worth ``ln(p0 (m - 1) / (1 - p0))`` nats. m is the number of distinct answers seen,
    at least 2. None does not vote, and leads by 0 if nobody votes.

    Source:
        OptPO, arXiv:2512.02882: a sequential probability ratio test (Wald 1945) between leader and runner-up.

    Example:
        >>> answer, log_odds = majority(["5", None, "4", "4"], vote_accuracy=0.75)
        >>> answer, round(log_odds, 4)  # ln 3
        ('4', 1.0986)
    """
    votes = Counter(answer for answer in answers if answer is not None)
    (leader, most), (_, second) = [*votes.most_common(2), (None, 0), (None, 0)][:2]
    return leader, (most - second) * math.log(vote_accuracy * (max(len(votes), 2) - 1) / (1 - vote_accuracy))


OPTPO = known(
    Recipe(
        name="optpo",
        card=Card(
            table="responses",
            changes="votes until the majority is settled, which is the label",
            needs="rewards that tell answers; no labels",
            cost="4 to 32",
            fidelity="after",
            departs="Thresholds are ours. m is the number of answers seen.",
        ),
        checked=Comparison(
            rule="where voting ends",
            against="brute force",
            test="unit/methods/sampling/test_optpo.py::test_it_stops_at_the_first_settled_block_of_every_history",
        ),
        text="""
            Trains without labels (OptPO, arXiv:2512.02882): samples until the majority of the answers is settled, then
            runs GRPO on agreement with it. Training figures speak of agreement, held-out ones of the true reward.
        """,
        sampler=OptPoSampler,
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
    )
)
