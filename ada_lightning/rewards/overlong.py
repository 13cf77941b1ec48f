"""DAPO's soft punishment of responses that come near the length limit."""

from __future__ import annotations

from ada_lightning.core.checks import refuse
from ada_lightning.core.options import option, use
from ada_lightning.core.protocols import Reward
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.combined import CombinedReward, verdict_of
from ada_lightning.rewards.extraction import LastNumber
from ada_lightning.rewards.reasoning_gym import ReasoningGymReward
from ada_lightning.rewards.verdict_cache import judged_part


@option(
    "reward",
    "overlong",
    below="reward",
    defaults=["_pool"],
    max_tokens="${rollout.sampling.max_new_tokens}",
    reward=use(ReasoningGymReward, extraction=use(LastNumber), binary=True),
)
class OverlongReward(CombinedReward):
    """Adds to another reward a penalty that grows linearly over the last tokens before the length limit.

    With ``max_tokens`` L and a buffer of ``c = buffer_ratio L`` tokens, a response of n tokens gets

        0 if n <= L - c;  ((L - c) - n) / c, times ``factor``, up to L;  -factor from L on.

    The claim: a response that the limit cut is wrong whatever it would have said, and a sharp drop there is noise; a
    slope tells the policy to be brief before it is cut. Assumed: that length beyond ``L - c`` is never needed.
    Degenerate: prompts whose responses are all wrong and differ in length have rewards that differ, so a filter of
    groups without signal must look at the component ``correct`` (``refill.component=correct``), as DAPO's does.

    Both parts are logged: ``reward/correct`` before the penalty and ``reward/overlong``. Choose a
    ``rollout.positive_threshold`` that a right answer passes in spite of the penalty: 0 with rewards of 0 and 1.
    Held-out avg@k has the penalty in it.

    Args:
        reward: the reward to add to.
        max_tokens: L, the longest response that can be drawn.
        buffer_ratio: c / L; DAPO has 4096 / 20480 = 0.2.
        factor: largest penalty, in the reward's unit; DAPO has 1.

    Raises:
        ValueError: a number out of range, or ``reward`` is none; all in one message.

    Source:
        DAPO, arXiv:2503.14476, section 3.4, eq. 13; verl-recipe ``dapo`` (``overlong_buffer``).

    Example:
        >>> from ada_lightning.rewards.format import FormatReward
        >>> reward = OverlongReward(FormatReward(".*"), max_tokens=10, buffer_ratio=0.2)
        >>> [reward(Prompt("id", ()), Completion("x", num_tokens=n)).reward for n in (8, 9, 10)]
        [1.0, 0.5, 0.0]
    """

    def __init__(self, reward: Reward, *, max_tokens: int, buffer_ratio: float = 0.2, factor: float = 1.0) -> None:
        errors = []
        if not callable(reward):
            errors.append(f"reward.reward.reward is not a reward; it needs a _target_; got {reward!r}")
        if max_tokens < 1:
            errors.append(f"reward.reward.max_tokens must be at least 1; got {max_tokens}")
        if not 0 < buffer_ratio <= 1:
            errors.append(f"reward.reward.buffer_ratio must be in (0, 1]; got {buffer_ratio}")
        if not 0 <= factor < float("inf"):
            errors.append(f"reward.reward.factor must not be negative (the penalty is subtracted); got {factor}")
        refuse(*errors)
        super().__init__({"": reward})
        self.reward = reward
        self.max_tokens = max_tokens
        self.buffer_ratio = buffer_ratio
        self.factor = factor

    def __call__(self, prompt: Prompt, completion: Completion) -> Verdict:
        """Grade one response.

        Raises:
            ValueError: whoever drew the response did not say how many tokens it has.
        """
        number, verdict = verdict_of(self.reward, prompt, completion)
        penalty = self.penalty(completion)
        components = {**verdict.components, "correct": float(number), "overlong": penalty}
        return Verdict(number + penalty, verdict.answer, components)

    def penalty(self, completion: Completion) -> float:
        """Return what length costs, from 0 down to ``-factor``."""
        if completion.num_tokens is None:
            raise ValueError("OverlongReward needs the number of tokens of a response, and this one has none")
        buffer = self.buffer_ratio * self.max_tokens
        over = completion.num_tokens - (self.max_tokens - buffer)
        return -self.factor * min(max(over / buffer, 0.0), 1.0) or 0.0  # never -0.0

    def cache_key(self, completion: Completion) -> str:
        """Name what is judged: what the inner reward judges, and the penalty."""
        return f"{self.penalty(completion)!r} {judged_part(self.reward, completion)}"
