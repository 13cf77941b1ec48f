"""Adds rewards up."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ada_lightning.core.options import option, use
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.combined import CombinedReward, verdict_of
from ada_lightning.rewards.exact_match import ExactMatchReward
from ada_lightning.rewards.extraction import TaggedAnswer
from ada_lightning.rewards.failures import NotApplicableError
from ada_lightning.rewards.format import FormatReward


@option(
    "reward",
    "weighted",
    below="reward",
    defaults=["_pool"],
    _convert_="all",
    rewards={
        "correct": {"weight": 1.0, "reward": use(ExactMatchReward, extraction=use(TaggedAnswer))},
        "format": {"weight": 0.1, "reward": use(FormatReward, pattern=".*<answer>[^<]+</answer>")},
    },
)
class WeightedReward(CombinedReward):
    """Weighted sum of rewards, each of which is logged as ``reward/<name>``, before its weight.

    Add one by ``+reward.reward.rewards.<name>={reward: ..., weight: ...}``. The option has a right
    ``<answer>...</answer>`` and, worth a tenth of it, the form of one. The sum goes with
    ``advantage=weighted_leave_one_out``, ``selection=stratified`` and ``sampler=spread``.

    A component that fails fails the grade: the sum would be another reward without it. One that does not apply to the
    prompt (:class:`~ada_lightning.rewards.failures.NotApplicableError`) adds nothing and is not logged. The
    answer is that of the first component that found one. A sum has more values than 0 and 1: choose
    ``rollout.positive_threshold`` and an advantage that uses them.

    Args:
        rewards: by name, each with ``reward`` (a reward) and ``weight`` (a finite number; 0 only logs it). Components
            of a component are logged as ``reward/<name>/<its name>``.

    Raises:
        ValueError: no component, a name that a metric cannot have, or a component that is not made of those two.

    Example:
        >>> from ada_lightning.rewards.format import FormatReward
        >>> number = {"reward": FormatReward("[0-9]+"), "weight": 1.0}
        >>> short = {"reward": FormatReward(".{1,3}"), "weight": 0.5}
        >>> WeightedReward({"number": number, "short": short})(Prompt("id", ()), Completion("no"))
        Verdict(reward=0.5, answer=None, components={'number': 0.0, 'short': 1.0}, failure='')
    """

    def __init__(self, rewards: Mapping[str, Mapping[str, Any]]) -> None:
        if not rewards:
            raise ValueError("reward.reward.rewards is empty; it needs a component: {name: {reward: ..., weight: ...}}")
        super().__init__({})
        self._weights: dict[str, float] = {}
        for name, part in rewards.items():
            if not re.fullmatch(r"[A-Za-z0-9_.-]+", str(name)):
                raise ValueError(
                    f"reward.reward.rewards.{name}: use letters, digits, '_', '-' and '.', as in a metric's name"
                )
            keys = set(part) if isinstance(part, Mapping) else set()
            if keys != {"reward", "weight"}:
                found = ", ".join(sorted(map(str, keys))) or repr(part)
                raise ValueError(
                    f"reward.reward.rewards.{name} must have reward and weight, and nothing else; found {found}"
                )
            reward, weight = part["reward"], part["weight"]
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
                raise ValueError(f"reward.reward.rewards.{name}.weight must be a finite number; got {weight!r}")
            if not callable(reward):
                raise ValueError(
                    f"reward.reward.rewards.{name}.reward is not a reward; it needs a _target_; got {reward!r}"
                )
            self.parts[str(name)] = reward
            self._weights[str(name)] = float(weight)

    @property
    def answers_without_reference(self) -> bool | None:
        """Whether some component tells such answers, and none tells others."""
        told = self.answers_told()
        return False if False in told else True if True in told else None

    def __call__(self, prompt: Prompt, completion: Completion) -> Verdict:
        """Grade one response.

        Raises:
            NotApplicableError: no component applies.
        """
        total, answer, components = 0.0, None, dict[str, float]()
        for name, reward in self.parts.items():
            try:
                number, verdict = verdict_of(reward, prompt, completion)
            except NotApplicableError:
                continue
            total += self._weights[name] * number
            answer = verdict.answer if answer is None else answer
            components[name] = number
            components |= {f"{name}/{part}": value for part, value in verdict.components.items()}
        if not components:
            raise NotApplicableError(f"none of {', '.join(self.parts)} applies to prompt {prompt.prompt_id}")
        return Verdict(total, answer, components)
