"""After OptPO: sample a prompt until the majority of its answers is settled, and take that majority for the label.

Paper: OptPO, arXiv:2512.02882, on test-time reinforcement learning by majority votes (TTRL, arXiv:2504.16084): a
Bayesian sequential probability ratio test between the two most frequent answers ends sampling; the responses drawn
train, with 1 for those that give the majority's answer. Claim: 30-50 % fewer tokens than a fixed number of votes, for
the same accuracy. Assumption: wrong answers scatter: the model is right more often than it gives any one wrong answer.
Degenerate case: where a wrong answer is the majority it is rewarded, and where all answers differ the first one is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from ada_lightning.core.protocols import PoolEnd, Trait
from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.sampling.blocks import BlockSampler
from ada_lightning.methods.sampling.votes import majority_answer, majority_log_odds


class OptPoSampler(BlockSampler):
    """Blocks of ``samples_per_round`` until the leading answer is ahead by enough, or ``n_max`` responses are in.

    Needs no reference answers: graders are asked for the answer of a response
    (:attr:`~ada_lightning.core.records.Verdict.answer`), and their rewards are replaced before anything trains on or
    learns from them. So training figures such as ``rollout/reward_first_round`` say how often responses agree; held-out
    ones keep the true reward.

    What is the paper's: the test, its two hypotheses, the cap, the labels. There is no public code; ours are

    - ``vote_accuracy``, ``threshold`` and the block size, for which no values are known to us;
    - m, the number of candidate answers: the distinct ones seen so far, at least 2. More of them make each vote of lead
      worth more, as the model of votes has it; the threshold is then no exact bound on the error;
    - a response without an answer does not vote and gets 0; of equally frequent answers that which came first is the
      label, which happens at ``n_max`` only.

    Args:
        vote_accuracy: p0, probability of the true majority's answer in one response, in (1/2, 1).
        threshold: odds of leader against runner-up that end sampling, above 1.
        samples_per_round: responses per block.
        n_max: most responses per prompt and step.
        group_size: most responses kept for the update.
        budget_per_step: most responses of a whole rollout step; 0 sets no limit.

    Raises:
        ValueError: a value out of its range; all in one message.

    Example:
        >>> from ada_lightning.core.records import Prompt, ResponsePool
        >>> sampler = OptPoSampler(vote_accuracy=0.7, threshold=99, samples_per_round=4, n_max=32, group_size=32)
        >>> sampler.num_to_draw(ResponsePool(Prompt("x", ()), slot=0))
        4
    """

    traits = frozenset({Trait.GIVES_REWARDS})

    def __init__(
        self,
        *,
        vote_accuracy: float,
        threshold: float,
        samples_per_round: int,
        n_max: int,
        group_size: int,
        budget_per_step: int = 0,
    ) -> None:
        self.vote_accuracy = vote_accuracy
        self.threshold = threshold
        super().__init__(
            samples_per_round=samples_per_round,
            n_max=n_max,
            group_size=group_size,
            budget_per_step=budget_per_step,
        )

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Say whether the majority is settled, with 1 for each response that gives the majority's answer, else 0."""
        answers = [response.answer for response in pool.responses]
        odds, label = majority_log_odds(answers, vote_accuracy=self.vote_accuracy), majority_answer(answers)
        rewards = [float(label is not None and answer == label) for answer in answers]
        return PoolEnd(is_resolved=odds > math.log(self.threshold), rewards=rewards)

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Warn of a step without any answer, which trains nothing."""
        if not any(response.answer is not None for pool in pools for response in pool.responses):
            warnings.warn(
                "no response of this step has an answer, so there is no majority and nothing to train on: does the "
                "reward tell answers (Verdict.answer), and does its extraction find any?",
                RuntimeWarning,
                stacklevel=2,
            )

    def _size_errors(self) -> list[str]:
        errors = []
        if not 0.5 < self.vote_accuracy < 1:
            errors.append(
                f"vote_accuracy must be in (0.5, 1), or a lead of votes would be no evidence; got {self.vote_accuracy}"
            )
        if not 1 < self.threshold < math.inf:
            errors.append(f"threshold must be above 1 and finite, as odds; got {self.threshold}")
        return errors + super()._size_errors()
