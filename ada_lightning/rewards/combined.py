"""A reward made of other rewards, which passes on their checks and hints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ada_lightning.core.checks import refuse
from ada_lightning.core.protocols import Reward
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.verdict_cache import judged_part


def with_parts(reward: Any) -> Iterator[Any]:
    """Yield a reward and, where it is made of others, those."""
    yield reward
    if isinstance(reward, CombinedReward):
        for part in reward.parts.values():
            yield from with_parts(part)


def verdict_of(reward: Reward, prompt: Prompt, completion: Completion) -> tuple[float, Verdict]:
    """Ask a reward, and return its number with the verdict that holds it.

    Raises:
        ValueError: its verdict has no number, or says that grading failed.
    """
    result = reward(prompt, completion)
    verdict = result if isinstance(result, Verdict) else Verdict(result)
    if verdict.reward is None or verdict.failure:
        raise ValueError(f"{type(reward).__name__} returned {verdict}: a reward must raise an error if it cannot grade")
    return verdict.reward, verdict


class CombinedReward:
    """Base of rewards that ask others.

    Args:
        parts: rewards by the name that errors of theirs begin with; an empty one begins nothing.
    """

    def __init__(self, parts: Mapping[str, Reward]) -> None:
        self.parts = dict(parts)

    @property
    def modules(self) -> tuple[str, ...]:
        """What the parts import late."""
        return tuple(name for reward in self.parts.values() for name in getattr(reward, "modules", ()))

    @property
    def cacheable(self) -> bool:
        """Whether all parts are."""
        return all(getattr(reward, "cacheable", True) for reward in self.parts.values())

    def cache_key(self, completion: Completion) -> str:
        """Name what is judged: what each of the parts judges, length too where one of them does."""
        return repr([judged_part(reward, completion) for reward in self.parts.values()])

    def check(self) -> None:
        """Let every part check itself.

        Raises:
            ValueError: one or more have something to say.
        """
        refuse(*self._errors("check"))

    def check_prompt(self, prompt: Prompt) -> None:
        """Let every part look at a prompt.

        Raises:
            ValueError: one or more cannot grade with it.
        """
        refuse(*self._errors("check_prompt", prompt))

    def answers_told(self) -> list[bool | None]:
        """Whether answers that each part tells do without the reference; None where it does not say."""
        return [getattr(reward, "answers_without_reference", None) for reward in self.parts.values()]

    def _errors(self, method: str, *arguments: Any) -> list[str]:
        errors = []
        for name, reward in self.parts.items():
            if callable(check := getattr(reward, method, None)):
                try:
                    check(*arguments)
                except ValueError as error:
                    errors.append(f"{name}: {error}" if name else str(error))
        return errors
