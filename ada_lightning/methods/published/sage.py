"""SAGE's hints (arXiv:2602.03143): a prompt that nobody solves is drawn again with a hint that the policy writes.

Claim: where no response is right no rule learns anything. A policy that sees the worked solution can say in prose what
    it rests on, at several levels of detail. With that in the prompt it is right now and then, and the response is
    learned behind the hint.
Assumption: a policy that can write such a hint and end it, and that answers better with it.
Degenerate: where every hint gives the answer away, or never ends, all are refused; each costs one response. Where no
    prompt is all wrong, nothing changes.
Fidelity: adapted. Three levels of prose (concept, method, detailed), written by the current policy from question and
    solution, are SAGE's; so is training with the hint in the context. When a hint is given, how levels fall and the
    budget are those of hints=prefix. SAGE replaces the prompt's group; here it is one more. SAGE draws its whole batch
    again at each level in turn; here one hint is drawn for each prompt that needs it. SAGE never looks whether a hint
    gives the answer away; here such a hint is refused. The wording is ours.

Source: ``BaohaoLiao/SAGE`` at 8722c1a: ``recipe/hint/hint_trainer.py`` (when, levels, context), ``prompt.py`` (the
    levels).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ada_lightning.core.hint import SOLUTION, Hint, answer_of, shows
from ada_lightning.core.options import option
from ada_lightning.core.records import Outcome, Prompt, ResponseGroup
from ada_lightning.methods.checked import Check, at_least
from ada_lightning.methods.hints import LevelledHints

LEVELS = (
    "In one sentence, name the idea or the fact that the solution rests on. Do not say how to apply it.",
    "In two or three sentences, say which steps to take and in which order. Carry out none of them.",
    "Walk through the solution and set up every quantity that it needs. Stop before its last step.",
)
"""What the hint of each level is to say: concept, method, detailed."""
EMPTY, TOO_LONG, SHOWS_ANSWER, IS_RIGHT, UNGRADED = "empty", "too_long", "shows_answer", "graded_right", "not_graded"
REASONS = (EMPTY, TOO_LONG, SHOWS_ANSWER, IS_RIGHT, UNGRADED)
"""Why a hint is refused, in the names of ``hints/refused_<reason>``."""
_REQUEST = """Here are a problem and its worked solution.

Problem:
{problem}

Solution:
{solution}

Write a hint for a student who tries the problem and does not see the solution. {level} Never state the final answer. \
Reply with the hint alone."""
_PLAIN_REQUEST = """Problem:
{problem}

Solution:
{solution}

A hint for this problem that does not state the final answer. {level}
Hint:"""
"""For a model without turns, which continues a text."""


@option("hints", "text")
@dataclass(kw_only=True, eq=False)
class TextHints(LevelledHints):
    r"""Draws a prompt that nobody solves again, with a hint in prose that the policy writes from its solution.

    When a prompt gets a hint, and of which level, :class:`~ada_lightning.methods.hints.LevelledHints` says; there are
    three levels. The hint is drawn first, as one response to a request with question and solution. Its seed is a
    function of the step and the prompt's slot. Then the group is drawn behind it: the hint stands at the end of the
    last user turn; without a chat template, in front of the text. It counts as one response in ``max_share``.

    A group under a hint h follows the gradient of f(pass rate given h), so hinted groups follow the mean of it over the
    hints that the policy would write. Nothing flows through the writing: those tokens are never trained.

    A hint is refused where it is empty, does not end within ``max_hint_tokens`` or leaves no room for the response,
    shows the reference answer, or is graded right or cannot be graded. The prompt then has no hinted group in that
    step, and the hint is not written anew: what is followed is the mean over hints with refused ones as 0.

    Source:
        SAGE, arXiv:2602.03143, BaohaoLiao/SAGE at 8722c1a. docs/hints.md

    Example:
        >>> prompt = Prompt("a", ({"role": "user", "content": "3 + 4?"},), {"solution": "3 + 4 = 7", "answer": 7})
        >>> hints = TextHints()
        >>> hints.connect(lambda prompt: range(len(prompt.messages[-1]["content"])), has_turns=True)
        >>> wrote = Outcome("Count on.", (1, 2), (-0.5, -0.5), False)
        >>> hints.written(prompt, Hint(1, 3, "", 0), wrote, is_right=False, room=None).messages[-1]["content"]
        '3 + 4?\n\nHint: Count on.'
        >>> wrote = Outcome("It is 7.", (1, 2), (-0.5, -0.5), False)
        >>> hints.written(prompt, Hint(1, 3, "", 0), wrote, is_right=False, room=None).hint.refused
        'shows_answer'
    """

    writes = True
    needs_room_for: ClassVar[str] = "solution, with the request for a hint"

    max_hint_tokens: int = 256
    """Longest hint, in tokens; at most ``rollout.sampling.max_new_tokens``. One that does not end there is refused."""

    _encode: Callable[[Prompt], Sequence[int]] | None = field(default=None, init=False, repr=False)
    _has_turns: bool = field(default=True, init=False, repr=False)

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield from at_least(1, **{"hints.max_hint_tokens": self.max_hint_tokens})

    def connect(self, encode: Callable[[Prompt], Sequence[int]], *, has_turns: bool) -> None:
        """Remember how prompts become tokens, and whether by a chat template."""
        self._encode, self._has_turns = encode, has_turns

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Refuse prompts of which none has a solution."""
        if not any(self._num_levels(prompt) for prompt in prompts):
            raise ValueError(
                f"hints=text has the policy write a hint from a worked solution, but none of the {len(prompts)} "
                "training prompts has one. Name the column of worked solutions: data.source.solution_column=<name>; or "
                "use hints=none"
            )

    def written(
        self, prompt: Prompt, hint: Hint, outcome: Outcome, *, is_right: bool | None, room: int | None
    ) -> Prompt:
        """Return the prompt with the hint that the policy wrote, or with one that says why it is refused.

        Args:
            prompt: without a hint.
            hint: of the request.
            outcome: what was written; of a text with ``</think>`` the part behind it counts.
            is_right: whether the reward takes it for a right response by itself; None: it could not grade it.
            room: longest prompt that the engine takes, in tokens; None: any.
        """
        text = outcome.text.rpartition("</think>")[2].strip()
        place, asked = [(at, turn) for at, turn in enumerate(prompt.messages) if turn["role"] == "user"][-1]
        said = f"{asked['content']}\n\nHint: {text}" if self._has_turns else f"Hint: {text}\n\n{asked['content']}"
        turns = (*prompt.messages[:place], {**asked, "content": said}, *prompt.messages[place + 1 :])
        given = replace(prompt, prompt_id=f"{prompt.prompt_id}#{hint.level}", messages=turns, solution=None)
        ids = self._ids(given)
        if outcome.is_truncated or (room is not None and len(ids) > room):
            refused = TOO_LONG
        elif not text:
            refused = EMPTY
        elif shows(text, answer_of(prompt.reference)):
            refused = SHOWS_ANSWER
        else:
            refused = UNGRADED if is_right is None else IS_RIGHT if is_right else ""
        known = replace(
            hint,
            num_tokens=len(ids) - len(prompt.prompt_ids),
            num_written=outcome.num_tokens,
            max_new_tokens=0,
            refused=refused,
        )
        return replace(given, prompt_ids=ids, hint=known)

    def figures(self, groups: Sequence[ResponseGroup]) -> dict[str, float]:
        """Return what a step's hints did (:class:`~ada_lightning.methods.hints.LevelledHints`), and what writing cost.

        ``written_tokens`` that the policy drew for hints, refused ones included, and how many were refused, by reason.
        """
        hints = [group.pool.prompt.hint for group in groups if group.pool.prompt.hint is not None]
        return super().figures(groups) | {
            "hints/written_tokens": float(sum(hint.num_written for hint in hints)),
            **{f"hints/refused_{reason}": float(sum(h.refused == reason for h in hints)) for reason in REASONS},
        }

    def caveat(self) -> str:
        """Say what hinted groups follow."""
        return (
            "hints: a prompt whose responses were all wrong and that is believed to be solved less than 1 in "
            f"{1 / self.p_min:.3g} times is drawn again with a hint in its prompt, which the policy writes from its "
            "solution. These groups (share in hints/share) follow the mean, over the hints that the policy would "
            "write, of the gradient of f(pass rate with the hint given). A refused hint counts as 0 in that mean. "
            "Nothing flows through the writing: the policy does not learn to write hints. They are no evidence of the "
            "pass rate. The level of the hints falls as they are solved. policy.max_grad_norm is for the step as a "
            "whole, so they may shorten the others' part of it"
        )

    def _num_levels(self, prompt: Prompt) -> int:
        has_solution = isinstance(text := prompt.reference.get(SOLUTION), str) and bool(text.strip())
        return len(LEVELS) if has_solution and any(turn["role"] == "user" for turn in prompt.messages) else 0

    def _with_level(self, prompt: Prompt, level: int, room: int | None) -> Prompt | None:
        """Return the prompt as graders see it, with the tokens of the request for its hint; None without room."""
        said = (_REQUEST if self._has_turns else _PLAIN_REQUEST).format(
            problem=[turn["content"] for turn in prompt.messages if turn["role"] == "user"][-1],
            solution=prompt.reference[SOLUTION].strip(),
            level=LEVELS[level - 1],
        )
        ids = self._ids(replace(prompt, messages=({"role": "user", "content": said},)))
        hint = Hint(level, len(LEVELS), "", 0, max_new_tokens=self.max_hint_tokens)
        asks = replace(prompt, prompt_id=f"{prompt.prompt_id}#{level}", prompt_ids=ids, solution=None, hint=hint)
        return asks if room is None or len(ids) <= room else None

    def _ids(self, prompt: Prompt) -> tuple[int, ...]:
        if self._encode is None:
            raise RuntimeError("hints=text must be told how prompts become tokens: call connect(encode, has_turns=...)")
        return tuple(self._encode(prompt))
