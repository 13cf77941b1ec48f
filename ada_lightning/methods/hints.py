"""Whether a prompt that nobody solves is drawn again with a hint, and how much of one; hints of a solution's lines."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ada_lightning.core.following import bare_id, hinted
from ada_lightning.core.options import option
from ada_lightning.core.protocols import FollowUp
from ada_lightning.core.records import Belief, Prompt, ResponseGroup, ResponsePool
from ada_lightning.methods.checked import Check, Checked, at_least

MIN_GROUPS = 16
"""Hinted groups before the first level of a prompt follows what others needed; until then it is half of them."""


@option("hints", "none")
class NoHints(FollowUp):
    """No prompt is drawn again with a hint. Costs nothing."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a prompt's hint has been withdrawn."""

    level: int
    """Of its next hint; 0: none is given now."""
    ceiling: int
    """No later hint has a higher level. It only falls."""
    visits: tuple[int, ...] = ()
    """Hinted groups so far by level, from 1."""
    is_solved: bool = False
    """Whether a response without a hint was right since the first hint."""
    is_reached: bool = True
    """Whether it had a hint; of what the policy wrote all may have been refused."""

    def after(self, level: int, num_levels: int, rate: float, visits_per_level: int) -> Progress:
        """Return what a hinted group leaves, of which this share was right."""
        visits = list(self.visits) + [0] * (num_levels - len(self.visits))
        visits[level - 1] += 1
        ceiling = min(self.ceiling, level - 1) if visits[level - 1] >= visits_per_level else self.ceiling
        wanted = level + 1 if rate == 0 else level - 1 if rate >= 0.5 else level
        return replace(self, level=max(0, min(wanted, ceiling)), ceiling=ceiling, visits=tuple(visits))


@dataclass(kw_only=True, eq=False)
class LevelledHints(Checked, FollowUp, ABC):
    """Whether a prompt is hopeless, and how much of a hint it is given; a subclass says what a level is.

    A prompt gets a hint where its responses in this step are all wrong, two at least, and a pass rate of ``p_min`` has
    a probability below ``doubt`` by its belief and these responses. The hinted group is one of its own, with its own
    baseline, and trains with the hint in its context. Levels fall:

    - The first level is the lowest at which hinted groups of all prompts were right half of the time (isotonic fit over
      the share of the levels); half of the levels until there are 16 groups.
    - A group without a right response raises the level by one, one that is right half of the time lowers it by one.
      A hint that the policy wrote and that is refused counts as a visit, and lowers it by one.
    - A level that was used ``visits_per_level`` times is not used again, nor any above it. So every prompt's hints
      come to an end. At level 0 it is an ordinary prompt.

    Hinted groups are at most ``max_share`` of a step's responses, hints included; the first prompts of the step come
    first. They are no evidence of a pass rate: no estimator, curriculum or sampler learns from them.
    """

    is_on = True
    needs_room_for: ClassVar[str] = "hint"
    """What comes on top of the prompt."""

    p_min: float = 0.05
    """A prompt that is solved less often is helped. At 0.05 one group of four in five has a right response."""
    doubt: float = 0.05
    """Greatest probability that its pass rate is ``p_min`` or more."""
    max_share: float = 0.25
    """Most responses under a hint, as a share of all responses of a step; below 1."""
    visits_per_level: int = 3
    """Hinted groups of a prompt with one level, before it and those above are given up."""

    _progress: dict[str, Progress] = field(default_factory=dict, init=False, repr=False)
    """By id of the bare prompt, of those that had a hint."""
    _counts: dict[str, tuple[int, int]] = field(default_factory=dict, init=False, repr=False)
    """(right, responses) under hints of all prompts, by level and levels: ``2/5``."""
    _num_groups: int = field(default=0, init=False, repr=False)

    def _checks(self) -> Iterator[Check]:
        yield 0 < self.p_min < 1, f"hints.p_min must be in (0, 1); got {self.p_min}"
        yield 0 < self.doubt <= 1, f"hints.doubt must be in (0, 1]; got {self.doubt}"
        yield 0 < self.max_share < 1, f"hints.max_share must be in (0, 1), 0.25 for a quarter; got {self.max_share}"
        yield from at_least(1, **{"hints.visits_per_level": self.visits_per_level})

    def check_room(self, prompts: Sequence[Prompt], room: int) -> None:
        """Refuse prompts of which none has room for its lowest level."""
        num_without_room = 0
        for prompt in filter(self._num_levels, prompts):
            if self._with_level(prompt, 1, room) is not None:
                return
            num_without_room += 1
        if num_without_room:
            raise ValueError(
                f"none of the {num_without_room} training prompts with a solution has room for a hint: "
                f"rollout.max_model_tokens less rollout.sampling.max_new_tokens leaves {room} tokens for prompt and "
                f"{self.needs_room_for}. Use a larger rollout.max_model_tokens, or hints=none"
            )

    def follow(self, pool: ResponsePool, room: int | None = None) -> Prompt | None:
        """Return the prompt with its level of the hint, or a lower one that has room."""
        level = self._level(pool.prompt)
        if pool.num_sampled < 2 or pool.num_positive or not level or not self._is_hopeless(pool):
            return None
        return self._with_level(pool.prompt, level, room)

    def first_level(self, prompt: Prompt) -> int:
        """Return the level of a prompt that had no hint yet, from 1."""
        num_levels = self._num_levels(prompt)
        if self._num_groups < MIN_GROUPS:
            return (num_levels + 1) // 2
        rates = isotonic({_share(key): counts for key, counts in self._counts.items()})
        known = [share for share, rate in rates if rate >= 0.5]
        return min(num_levels, max(1, math.ceil(known[0] * num_levels - 1e-9))) if known else num_levels

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Move the levels of hinted prompts, and note which are solved without a hint by now."""
        progress, counts = dict(self._progress), dict(self._counts)
        for pool in pools:
            prompt_id, hint = bare_id(pool.prompt), pool.prompt.hint
            known = progress.get(prompt_id)
            if hint is not None and hint.refused:
                known = known or Progress(hint.level, hint.num_levels, is_reached=False)
                progress[prompt_id] = known.after(hint.level, hint.num_levels, 1.0, self.visits_per_level)
            elif not pool.num_sampled:
                continue
            elif hint is not None:
                known = replace(known or Progress(hint.level, hint.num_levels), is_reached=True)
                rate = pool.num_positive / pool.num_sampled
                progress[prompt_id] = known.after(hint.level, hint.num_levels, rate, self.visits_per_level)
                right, total = counts.get(key := f"{hint.level}/{hint.num_levels}", (0, 0))
                counts[key] = right + pool.num_positive, total + pool.num_sampled
                self._num_groups += 1
            elif known is not None:
                # Without a hint again, and nobody solved it: as a hinted group that nobody solved.
                level = min(1, known.ceiling) if not known.level and not pool.num_positive else known.level
                is_solved = known.is_solved or (known.is_reached and pool.num_positive > 0)
                progress[prompt_id] = replace(known, level=level, is_solved=is_solved)
        # Replaced, never changed in place: the copy of a step that is under way keeps what was known before it.
        self._progress, self._counts = progress, counts

    def figures(self, groups: Sequence[ResponseGroup]) -> dict[str, float]:
        """Return what a step's hints did, and the prompts reached so far, this step's included.

        ``groups``, ``prompts_reached`` (had a hint, ever), ``prompts_solved_later`` (a right response without a hint
        since), ``share`` of the step's responses, ``generated_tokens``, ``trained_tokens``, ``given_tokens`` of a hint,
        ``level`` as a share of the solution's levels, ``pass_rate`` of responses, ``signal_ratio`` of groups. The last
        four are there in steps that have hints.
        """
        pools = [group.pool for group in groups]
        every = [group.pool.prompt.hint for group in groups if group.pool.prompt.hint is not None]
        given = [group for group in groups if (hint := group.pool.prompt.hint) is not None and not hint.refused]
        before = {prompt_id for prompt_id, known in self._progress.items() if known.is_reached}
        reached = before | {bare_id(group.pool.prompt) for group in given if group.pool.num_sampled}
        solved = {prompt_id for prompt_id, known in self._progress.items() if known.is_solved}
        right = {pool.prompt.prompt_id for pool in pools if pool.num_positive and not pool.hint}
        solved |= right & before
        hints = [hint for hint in every if not hint.refused]
        responses = [response for group in given for response in group.pool.responses]
        num_drawn = sum(group.pool.num_drawn for group in given)
        num_written = sum(hint.num_written > 0 for hint in every)  # each is a response, too
        found = {
            "groups": len(given),
            "prompts_reached": len(reached),
            "prompts_solved_later": len(solved),
            "share": (num_drawn + num_written) / max(sum(pool.num_drawn for pool in pools) + num_written, 1),
            "generated_tokens": sum(response.num_tokens for response in responses),
            "trained_tokens": sum(kept.response.num_tokens for group in given for kept in group.trained),
        }
        if hints:
            found |= {
                "given_tokens": sum(hint.num_tokens for hint in hints) / len(hints),
                "level": sum(hint.share for hint in hints) / len(hints),
                "pass_rate": sum(response.is_positive for response in responses) / max(len(responses), 1),
                "signal_ratio": sum(group.has_signal for group in given) / len(given),
            }
        return {f"hints/{name}": float(value) for name, value in found.items()}

    def state_dict(self) -> dict[str, Any]:
        """Levels by prompt, and counts by level."""
        return {
            "progress": {
                prompt_id: [known.level, known.ceiling, list(known.visits), known.is_solved]
                for prompt_id, known in self._progress.items()
            },
            "counts": {key: list(counts) for key, counts in self._counts.items()},
            "num_groups": self._num_groups,
            "unreached": [prompt_id for prompt_id, known in self._progress.items() if not known.is_reached],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        unreached = {*state.get("unreached", ())}
        self._progress = {
            prompt_id: Progress(
                int(level), int(ceiling), tuple(map(int, visits)), bool(is_solved), prompt_id not in unreached
            )
            for prompt_id, (level, ceiling, visits, is_solved) in state["progress"].items()
        }
        self._counts = {key: (int(right), int(total)) for key, (right, total) in state["counts"].items()}
        self._num_groups = int(state["num_groups"])

    @abstractmethod
    def _num_levels(self, prompt: Prompt) -> int:
        """Levels that a prompt has; 0 where it can have no hint."""

    @abstractmethod
    def _with_level(self, prompt: Prompt, level: int, room: int | None) -> Prompt | None:
        """Return a prompt with this level of its hint, or with less where there is no room; None where it has none."""

    def _level(self, prompt: Prompt) -> int:
        """Level of a prompt's next hint; 0 where it gets none."""
        if not (num_levels := self._num_levels(prompt)):
            return 0
        known = self._progress.get(prompt.prompt_id)
        # The data may have changed since, and with it how often a solution may be cut.
        return self.first_level(prompt) if known is None else min(known.level, num_levels)

    def _is_hopeless(self, pool: ResponsePool) -> bool:
        from scipy.special import betainc

        belief: Belief = pool.belief
        below = betainc(belief.alpha + pool.num_positive, belief.beta + pool.num_negative, self.p_min)
        return bool(1.0 - below < self.doubt)


@option("hints", "prefix")
@dataclass(kw_only=True, eq=False)
class PrefixHints(LevelledHints):
    """Draws a prompt that nobody solves again, with the first lines of its solution as the beginning of the response.

    The claim: where no response is right no rule learns anything, and a prompt that is solved once in a thousand
    responses stays so. With a part of its solution given it is solved now and then, and the end of the solution is
    learned. Then less of it is enough.

    When a prompt gets a hint, and which, :class:`LevelledHints` says. The hinted group's expected update is exactly the
    gradient of the pass rate *given these lines*, times the objective's factor. The hint's own tokens learn nothing
    from it. So a hint that is never shortened never helps the bare prompt, and levels fall.

    Assumed: levels between 0 and the solution at which the policy is right now and then, and a policy that can go on in
    the solution's style. Degenerate: where responses are right only with all of the solution given, hints cost their
    share of the tokens and teach nothing; where no prompt is all wrong, nothing changes.

    Source:
        Hints as a part of the prompt: POPE, arXiv:2601.18779; levels by feedback: AdaPrefix-GRPO, arXiv:2607.07674.
        When, level, ceiling and budget are ours. docs/hints.md

    Example:
        >>> from ada_lightning.core.hint import Solution
        >>> solution = Solution("3 + 4 = 7; 7 + 5 = 12", levels=((11, 0),))
        >>> pool = ResponsePool(Prompt("a", ({"role": "user", "content": "?"},), solution=solution), slot=0)
        >>> PrefixHints().first_level(pool.prompt), PrefixHints().follow(pool)
        (1, None)
    """

    num_levels: int = 8
    """Most levels of a solution, at equal distances; longer ones have fewer places to stop than lines."""

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield from at_least(1, **{"hints.num_levels": self.num_levels})

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Refuse prompts of which none has a solution with a level."""
        if any(prompt.solution is not None and prompt.solution.levels for prompt in prompts):
            return
        with_solution = sum(prompt.solution is not None for prompt in prompts)
        missing = f"none of the {len(prompts)} training prompts has one"
        if with_solution:
            missing = (
                f"no level of the {with_solution} solutions among the {len(prompts)} training prompts can be used: "
                "each is graded right by itself, shows the answer, or cannot be cut"
            )
        raise ValueError(
            f"hints=prefix gives the first lines of a worked solution, but {missing}. Name the column of worked "
            "solutions: data.source.solution_column=<name> (a loop of your own: solutions={id: text}); or use "
            "hints=none"
        )

    def caveat(self) -> str:
        """Say what hinted groups follow."""
        return (
            "hints: a prompt whose responses were all wrong and that is believed to be solved less than 1 in "
            f"{1 / self.p_min:.3g} times is drawn again with the first lines of its solution given. These groups "
            "(share in hints/share) follow the mean of f(pass rate with these lines given). They do not teach to write "
            "those lines, nor count as evidence of the pass rate. The number of lines falls as they are solved. "
            "policy.max_grad_norm is for the step as a whole, so they may shorten the others' part of it"
        )

    def _num_levels(self, prompt: Prompt) -> int:
        return 0 if prompt.solution is None else len(prompt.solution.levels)

    def _with_level(self, prompt: Prompt, level: int, room: int | None) -> Prompt | None:
        assert prompt.solution is not None
        levels = prompt.solution.levels
        while room is not None and level and len(prompt.prompt_ids) + levels[level - 1][1] > room:
            level -= 1
        return hinted(prompt, level) if level else None


def isotonic(counts: Mapping[float, tuple[int, int]]) -> list[tuple[float, float]]:
    """Return rates that do not fall with their key, closest to the counts (pool adjacent violators, Ayer et al. 1955).

    Args:
        counts: (right, all) by key.

    Example:
        >>> isotonic({0.2: (1, 4), 0.4: (0, 4), 0.8: (3, 4)})
        [(0.2, 0.125), (0.4, 0.125), (0.8, 0.75)]
    """
    blocks: list[tuple[list[float], int, int]] = []
    for key in sorted(counts):
        keys, (right, total) = [key], counts[key]
        while blocks and blocks[-1][1] * total >= right * blocks[-1][2]:
            before, more_right, more = blocks.pop()
            keys, right, total = before + keys, right + more_right, total + more
        blocks.append((keys, right, total))
    return [(key, right / total) for keys, right, total in blocks for key in keys]


def _share(key: str) -> float:
    level, num_levels = key.split("/")
    return int(level) / int(num_levels)
