"""Adds rewards up."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ada_lightning.core.protocols import Reward
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.not_applicable import NotApplicableError


class WeightedReward:
    """Weighted sum of rewards, each of which is logged as ``reward/<name>``, before its weight.

    A component that fails fails the grade: the sum would be another reward without it. One that does not apply to the
    prompt (:class:`~ada_lightning.rewards.not_applicable.NotApplicableError`) adds nothing and is not logged. The
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
        Verdict(reward=0.5, answer=None, components={'number': 0.0, 'short': 1.0})
    """

    def __init__(self, rewards: Mapping[str, Mapping[str, Any]]) -> None:
        if not rewards:
            raise ValueError("reward.reward.rewards is empty; it needs a component: {name: {reward: ..., weight: ...}}")
        self._parts: dict[str, tuple[Reward, float]] = {}
        for name, part in rewards.items():
            if not re.fullmatch(r"[A-Za-z0-9_.-]+", str(name)):
                raise ValueError(
                    f"reward.reward.rewards.{name}: use letters, digits, '_', '-' and '.', as in a metric's name"
                )
            keys = set(part) if isinstance(part, Mapping) else set()
            if keys != {"reward", "weight"}:
                found = ", ".join(sorted(map(str, keys))) or repr(part)
                raise ValueError(
                    f"reward.reward.rewards.{name} must hold reward and weight, and nothing else; found {found}"
                )
            reward, weight = part["reward"], part["weight"]
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
                raise ValueError(f"reward.reward.rewards.{name}.weight must be a finite number; got {weight!r}")
            if not callable(reward):
                raise ValueError(
                    f"reward.reward.rewards.{name}.reward is no reward; it needs a _target_; got {reward!r}"
                )
            self._parts[str(name)] = (reward, float(weight))

    @property
    def modules(self) -> tuple[str, ...]:
        """What the components import late."""
        return tuple(name for reward, _ in self._parts.values() for name in getattr(reward, "modules", ()))

    @property
    def cacheable(self) -> bool:
        """Whether all components are."""
        return all(getattr(reward, "cacheable", True) for reward, _ in self._parts.values())

    @property
    def answers_without_reference(self) -> bool | None:
        """Whether some component tells such answers, and none tells others."""
        told = [getattr(reward, "answers_without_reference", None) for reward, _ in self._parts.values()]
        if False in told:
            return False
        return True if True in told else None

    def __call__(self, prompt: Prompt, completion: Completion) -> Verdict:
        """Grade one response.

        Raises:
            NotApplicableError: no component applies.
        """
        total, answer, components = 0.0, None, dict[str, float]()
        for name, (reward, weight) in self._parts.items():
            try:
                result = reward(prompt, completion)
            except NotApplicableError:
                continue
            verdict = result if isinstance(result, Verdict) else Verdict(result)
            total += weight * verdict.reward
            answer = verdict.answer if answer is None else answer
            components[name] = verdict.reward
            components |= {f"{name}/{part}": value for part, value in verdict.components.items()}
        if not components:
            raise NotApplicableError(f"none of {', '.join(self._parts)} applies to prompt {prompt.prompt_id}")
        return Verdict(total, answer, components)

    def check(self) -> None:
        """Let every component check itself.

        Raises:
            ValueError: one or more have something to say.
        """
        errors = []
        for name, check in self._optional("check"):
            try:
                check()
            except ValueError as error:
                errors.append(f"{name}: {error}")
        if errors:
            raise ValueError("; ".join(errors))

    def check_prompt(self, prompt: Prompt) -> None:
        """Let every component look at a prompt.

        Raises:
            ValueError: the first that cannot grade with it says why.
        """
        for name, check in self._optional("check_prompt"):
            try:
                check(prompt)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error

    def _optional(self, method: str) -> Iterator[tuple[str, Any]]:
        for name, (reward, _) in self._parts.items():
            if callable(function := getattr(reward, method, None)):
                yield name, function
