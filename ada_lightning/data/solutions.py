"""Worked solutions as the beginning of the model's turn: where they may be cut, and what gives too much away."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ada_lightning.core.hint import SOLUTION, Solution, answer_of, shows
from ada_lightning.core.records import Completion, Prompt

if TYPE_CHECKING:
    from ada_lightning.rewards.pool import RewardPool

PARTS_OF_ONE_LINE = 8
"""A solution of one sentence is cut into so many parts of equal numbers of tokens."""
_AT_ONCE = 1024
"""Prompts whose levels are graded at the same time."""
_LINES = re.compile(r"(?:[^\S\n]*\n)+")
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=\S)")

SHOWS_ANSWER, IS_RIGHT, CANNOT_CUT = "show the answer", "are graded right by themselves", "do not come back as text"


def ends_of_parts(text: str) -> list[int]:
    r"""Return where a solution may be cut, in characters: behind its lines; of a single line, behind its sentences.

    The last part is not given: with it, nothing would be left to say. None of a single sentence.

    Example:
        >>> ends_of_parts("2 * 3 = 6\n6 + 1 = 7\n#### 7")
        [10, 20]
        >>> ends_of_parts("First add. Then halve.")
        [10]
    """
    lines = [found.end() for found in _LINES.finditer(text)]
    # A sentence ends before the space: most tokenisers join it to the word behind it.
    return lines or [found.start() for found in _SENTENCES.finditer(text)]


def thinned(ends: Sequence[int], most: int) -> list[int]:
    """Return at most so many of some places, at equal distances, the last one included.

    Example:
        >>> thinned([1, 2, 3, 4, 5, 6], 3)
        [2, 4, 6]
    """
    if len(ends) <= most:
        return list(ends)
    return [ends[round((place + 1) * len(ends) / most) - 1] for place in range(most)]


def cut_text(text: str, answer: Any = None, *, num_levels: int) -> Solution:
    r"""Return a solution with its levels, for whoever encodes and grades them: behind lines, up to the answer.

    Example:
        >>> cut_text("2 * 3 = 6\n6 + 1 = 7\n#### 7", "7", num_levels=8).levels
        ((10, 0),)
    """
    whole = text.strip()
    safe = [place for place in ends_of_parts(whole) if not shows(whole[:place], answer)]
    return Solution(whole, (), tuple((place, 0) for place in thinned(safe, num_levels)))


def with_levels(
    prompts: Sequence[Prompt], tokenizer: Any, grader: RewardPool, *, num_levels: int, positive_threshold: float
) -> tuple[list[Prompt], str]:
    """Give prompts that have a worked solution its usable beginnings (:class:`~ada_lightning.core.hint.Solution`).

    A beginning is refused that shows the answer, with all behind it; that the reward grades as right; and whose tokens
    are not those of the whole solution, or do not come back as the same text.

    Args:
        prompts: encoded; ``reference["solution"]`` has the solution. One that comes several times is cut once.
        tokenizer: that encoded them.
        grader: grades every beginning once; its workers are running afterwards.
        num_levels: most beginnings of a solution.
        positive_threshold: a reward above it is right.

    Returns:
        The prompts, in their order, and a line that counts.
    """
    known = {prompt.prompt_id: prompt for prompt in prompts if isinstance(prompt.reference.get(SOLUTION), str)}
    refused = Counter[str]()
    cut = {
        prompt.prompt_id: replace(prompt, solution=solution)
        for prompt, solution in zip(
            known.values(), _cut(list(known.values()), tokenizer, num_levels, refused), strict=True
        )
    }
    found = _without_right_ones(cut, grader, positive_threshold, refused)
    numbers = [len(prompt.solution.levels) for prompt in found.values() if prompt.solution is not None]
    usable = [number for number in numbers if number]
    reasons = "".join(f", {count} {reason}" for reason, count in refused.most_common())
    line = (
        f"hints: {len(usable)} of {len({prompt.prompt_id for prompt in prompts})} training prompts have a solution "
        f"that may be given in part, in {sum(usable) / max(len(usable), 1):.1f} levels; refused levels: "
        f"{refused.total()}{reasons}"
    )
    return [found.get(prompt.prompt_id, prompt) for prompt in prompts], line


def _cut(prompts: Sequence[Prompt], tokenizer: Any, num_levels: int, refused: Counter[str]) -> Iterator[Solution]:
    """Yield the solution of each prompt, with the levels that its tokens allow and that do not show the answer."""
    texts = [prompt.reference[SOLUTION].strip() for prompt in prompts]
    for prompt, text, ids in zip(prompts, texts, _encoded(tokenizer, texts), strict=True):
        places = thinned(ends_of_parts(text), num_levels)
        begun = [text[:place] for place in places]
        if not begun:  # a single sentence
            sizes = [round(part * len(ids) / PARTS_OF_ONE_LINE) for part in range(1, PARTS_OF_ONE_LINE)]
            begun = [tokenizer.decode(ids[:size]) for size in thinned(sorted({*sizes} - {0}), num_levels)]
        levels = []
        for part, of_part in zip(begun, _encoded(tokenizer, begun), strict=True):
            if shows(part, answer_of(prompt.reference)):
                refused[SHOWS_ANSWER] += len(begun) - begun.index(part)
                break
            if not _comes_back(tokenizer, prompt, text, ids, part, of_part):
                refused[CANNOT_CUT] += 1
                continue
            levels.append((len(part), len(of_part)))
        yield Solution(text, tuple(ids[: levels[-1][1]]) if levels else (), tuple(levels))


def _encoded(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    return list(tokenizer(list(texts), add_special_tokens=False)["input_ids"]) if texts else []


def _comes_back(tokenizer: Any, prompt: Prompt, text: str, ids: list[int], part: str, of_part: list[int]) -> bool:
    """Whether the part's tokens begin the whole's, end no turn, and say the part behind the prompt's last token."""
    last = prompt.prompt_ids[-1:]
    return (
        bool(of_part)
        and text.startswith(part)
        and of_part == ids[: len(of_part)]
        and not {*tokenizer.all_special_ids}.intersection(of_part)
        and tokenizer.decode([*last, *of_part]) == tokenizer.decode([*last]) + part
    )


def _without_right_ones(
    prompts: Mapping[str, Prompt], grader: RewardPool, positive_threshold: float, refused: Counter[str]
) -> dict[str, Prompt]:
    found = dict(prompts)
    every = list(prompts.values())
    for first in range(0, len(every), _AT_ONCE):
        right: dict[str, set[int]] = {}
        for prompt in every[first : first + _AT_ONCE]:
            assert prompt.solution is not None
            for level, (num_characters, num_tokens) in enumerate(prompt.solution.levels):
                said = Completion(prompt.solution.text[:num_characters], "stop", num_tokens)
                grader.submit((prompt.prompt_id, level), prompt, said)
        while grader.num_pending:
            for ticket, verdict in grader.wait(1.0):
                prompt_id, level = cast(tuple[str, int], ticket)
                if verdict.reward is not None and verdict.reward > positive_threshold:
                    right.setdefault(prompt_id, set()).add(level)
        for prompt_id, levels in right.items():
            refused[IS_RIGHT] += len(levels)
            solution = found[prompt_id].solution
            assert solution is not None
            kept = tuple(each for level, each in enumerate(solution.levels) if level not in levels)
            found[prompt_id] = replace(found[prompt_id], solution=replace(solution, levels=kept))
    return found
