"""Which prompts of a step are drawn again with a hint: decided in the order of the prompts, whoever finished first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from ada_lightning.core.hint import Hint
from ada_lightning.core.protocols import FollowUp, Sampler
from ada_lightning.core.records import Outcome, Prompt, ResponseGroup, ResponsePool

SLOTS = 2**20
"""A hinted group has its prompt's slot plus this: its seeds follow from the prompt's place and from nothing else."""
WRITING = -1
"""Sample index under which the policy writes the hint of a group, so that its seed follows from the same."""


def hinted(prompt: Prompt, level: int) -> Prompt:
    """Return a prompt with a level of its solution as the beginning of the model's turn. Its id ends with ``#level``.

    Example:
        >>> from ada_lightning.core.hint import Solution
        >>> known = Prompt("a", ({"role": "user", "content": "3 + 4"},), solution=Solution("3 +", levels=((2, 0),)))
        >>> hinted(known, 1).prompt_id, hinted(known, 1).messages[-1]
        ('a#1', {'role': 'assistant', 'content': '3 '})
    """
    assert prompt.solution is not None
    hint = prompt.solution.hint(level)
    turns = prompt.messages
    is_begun = bool(turns) and turns[-1]["role"] == "assistant"  # responses continue it: the hint stands behind it
    begun = turns[-1]["content"] if is_begun else ""
    return replace(
        prompt,
        prompt_id=f"{prompt.prompt_id}#{level}",
        messages=(*(turns[:-1] if is_begun else turns), {"role": "assistant", "content": begun + hint.text}),
        prompt_ids=(*prompt.prompt_ids, *prompt.solution.token_ids[: hint.num_tokens]),
        solution=None,
        hint=hint,
    )


def bare_id(prompt: Prompt) -> str:
    """Id of the prompt without its hint."""
    return prompt.prompt_id if prompt.hint is None else prompt.prompt_id.removesuffix(f"#{prompt.hint.level}")


def without_hints(groups: Sequence[ResponseGroup]) -> tuple[ResponseGroup, ...]:
    """Return the groups that speak for their prompts' pass rates."""
    return tuple(group for group in groups if not group.pool.hint)


def not_refused(groups: Sequence[ResponseGroup]) -> tuple[ResponseGroup, ...]:
    """Return the groups that may train: a hint that is refused has none, and its empty pool only says so."""
    return tuple(group for group in groups if (hint := group.pool.prompt.hint) is None or not hint.refused)


def share_of_prompts(groups: Sequence[ResponseGroup]) -> float:
    """Return the share of groups that is counted where an update is divided by its size: those without a hint.

    So groups with a hint come on top, and do not shrink the part of the others. 1 where there is no other.
    """
    num_bare = sum(not group.pool.hint for group in groups)
    return num_bare / len(groups) if num_bare else 1.0


def why_no_hint(follow_up: FollowUp, sampler: Sampler, num_prompts: int) -> str:
    """Say why no step of so many prompts could ever have a hinted group; empty where one could.

    Example:
        >>> from ada_lightning.methods.hints import PrefixHints
        >>> from ada_lightning.methods.sampling import UniformSampler
        >>> why_no_hint(PrefixHints(), UniformSampler(group_size=4), 3)
        ''
    """
    most, share = sampler.most_per_prompt, follow_up.max_share
    needed = ceil((most + follow_up.writes) * (1.0 - share) / (share * most) - 1e-9) if most and share else 1
    if num_prompts >= needed:
        return ""
    return (
        f"hints.max_share = {share:g} leaves no hinted group room in a step of {num_prompts} prompts with at most "
        f"{most} responses each. Use {needed} prompts a step (data.prompts_per_step), or a larger hints.max_share"
    )


class FollowUps:
    """Says which prompts of one step are drawn again, as soon as no open prompt can change that.

    A share of the step's responses may be drawn again, and the first prompts in the order of the step come first.
    A prompt is let through early if it fits even when every one before it takes all it may. It is turned down only when
    all are complete. Otherwise it waits. So the answer is that of a pass over the finished step.

    Args:
        follow_up: of the run; its copy for this step decides.
        sampler: of the step.
        room: longest prompt that the engine takes, in tokens; None: any.

    Raises:
        ValueError: the sampler divides a step among its prompts.
    """

    def __init__(self, follow_up: FollowUp, sampler: Sampler, room: int | None) -> None:
        if sampler.budget_per_step or not sampler.plans_nothing:
            raise ValueError(
                f"hints: {type(sampler).__name__} divides a step among its prompts, but hints add groups to it; use a "
                "sampler that decides prompt by prompt, such as sampler=uniform, without sampler.budget_per_step"
            )
        self._follow_up, self._room = follow_up.frozen(), room
        self._most = sampler.most_per_prompt + follow_up.writes
        """Responses that a hinted group may take, the writing of its hint included."""
        self._open: set[int] = set()
        self._coming: dict[int, Prompt | None] = {}
        """By slot, prompts that wait for an answer; None: let through, or under way."""
        self.num_wanted = 0
        """Responses without a hint that were asked for: never more than the step has in the end."""

    def join(self, slots: list[int]) -> None:
        """Let the prompts of a step take part."""
        self._open.update(slots)

    def end(self, pool: ResponsePool) -> None:
        """Take a complete pool without a hint."""
        self._open.discard(pool.slot)
        if (prompt := self._follow_up.follow(pool, self._room)) is not None:
            self._coming[pool.slot] = prompt

    def written(self, prompt: Prompt, hint: Hint, outcome: Outcome, *, is_right: bool | None) -> Prompt:
        """Return a prompt with the hint that the policy wrote, or with why it is refused."""
        return self._follow_up.written(prompt, hint, outcome, is_right=is_right, room=self._room)

    def decide(self) -> list[tuple[int, Prompt]]:
        """Return what is drawn again from now on: slots of the hinted groups, and their prompts."""
        # Hinted responses are at most this share of all: so many for each one without a hint.
        limit = self._follow_up.max_share / (1.0 - self._follow_up.max_share) * self.num_wanted
        found, taken = [], 0
        for slot in sorted((*self._open, *self._coming)):
            prompt = self._coming.get(slot)
            if prompt is None or taken + self._most <= limit:
                taken += self._most
                if prompt is not None:
                    found.append((slot + SLOTS, prompt))
                    self._coming[slot] = None
            elif self._open:
                break  # it may fit once others have drawn more; none behind it fits before
            else:
                del self._coming[slot]
        return found
