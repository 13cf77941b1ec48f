"""Prompt Replay (arXiv:2603.21177): prompts that had a mixed outcome come back soon, for part of each step.

Fidelity: after. Band, order, share, cooldown and number of reuses are the paper's; which fresh prompts make room is not
    known, and a prompt that is due and in the buffer takes its own place: ours. A visit in the uniform order counts as
    one of the reuses.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.core.options import option, use
from ada_lightning.core.prompt_columns import found_by_id
from ada_lightning.core.protocols import Curriculum, Recall
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.curriculum.uniform import UniformCurriculum
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler


@dataclass(slots=True)
class _Visited:
    """What is kept of a prompt whose last pass rate lay in the band, or once did."""

    rate: float
    step: int
    num_reuses: int


@option("curriculum", "prompt_replay")
@dataclass(kw_only=True, eq=False)
class PromptReplay(Checked, Curriculum):
    """Prompts whose last visit had a mixed outcome come back for part of each step (after arXiv:2603.21177).

    They come with new responses; no response comes again. Asks no estimator. Up to a share of each step goes to prompts
    whose last visit had a pass rate in a band, those nearest 1/2 first. A prompt that has come back ``max_reuses``
    times after it first was in the band, out of turn or in its turn, stays out of the buffer for good, and one that was
    sampled rests for ``cooldown`` steps. Beyond that it comes in its turn, as all prompts do: the other places of a
    step are those of the uniform order, whose last ones give way.

    The buffer is what the last visit alone told, so its pass rates are as noisy as a group is small, and the further a
    rate of 1/2 was luck the sooner it leaves.

    Example:
        >>> curriculum = PromptReplay(cooldown=0)
        >>> curriculum.note({"a": 0.25, "b": 0.5, "c": 0.6875, "d": 0.8})
        >>> curriculum.waiting()
        ['b', 'c', 'a']
    """

    low: float = 0.25
    """Lowest pass rate of the last visit (paper: 0.25)."""
    high: float = 0.75
    """Highest (paper: 0.75)."""
    share: float = 0.75
    """Of a step's places, at most, that go to the buffer (paper: 0.75)."""
    cooldown: int = 10
    """Steps for which a prompt rests after it was sampled (paper: 10)."""
    max_reuses: int = 15
    """Times that a prompt comes back, those in its turn among them (paper: 15)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._num_steps = 0
        self._visited: dict[str, _Visited] = {}

    def _checks(self) -> Iterator[Check]:
        yield 0 <= self.low <= self.high <= 1, f"curriculum needs 0 <= low <= high <= 1; got {self.low} and {self.high}"
        yield 0 <= self.share <= 1, f"curriculum.share must be in [0, 1]; got {self.share}"
        yield self.cooldown >= 0, f"curriculum.cooldown must not be negative; got {self.cooldown}"
        yield self.max_reuses >= 1, f"curriculum.max_reuses must be at least 1; got {self.max_reuses}"

    def waiting(self) -> list[str]:
        """Return the ids of the prompts that may come back now, the first to come first."""
        able = {
            prompt_id: seen
            for prompt_id, seen in self._visited.items()
            if self.low <= seen.rate <= self.high
            and seen.num_reuses < self.max_reuses
            and self._num_steps - seen.step > self.cooldown
        }
        return sorted(able, key=lambda prompt_id: abs(able[prompt_id].rate - 0.5))

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return the first of the uniform order and, in place of the last ones, what waits in the buffer; shuffled."""
        fresh = UniformCurriculum().choose(prompts, num_prompts, step=step, seed=seed, recall=recall)
        waiting = self.waiting()
        places = found_by_id(prompts, waiting)
        able = [prompt_id for prompt_id in waiting if prompt_id in places]
        for num_replayed in range(min(int(self.share * num_prompts), len(able)), 0, -1):
            kept = fresh[: num_prompts - num_replayed]
            due = {prompt.prompt_id for prompt in kept}
            replayed = [places[prompt_id] for prompt_id in able if prompt_id not in due][:num_replayed]
            if len(replayed) == num_replayed:
                chosen = [*kept, *replayed]
                random.Random(f"{seed}/replay/{step}").shuffle(chosen)
                return chosen
        return fresh

    def observe(self, pools: Sequence[ResponsePool]) -> None:
        """Note the pass rates of a finished step."""
        self.note({pool.prompt.prompt_id: pool.num_positive / pool.num_sampled for pool in pools if pool.num_sampled})

    def note(self, rates: Mapping[str, float]) -> None:
        """Do the same from pass rates by prompt id; a step is over."""
        for prompt_id, rate in rates.items():
            if prompt_id in self._visited:
                earlier = self._visited[prompt_id]
                self._visited[prompt_id] = _Visited(rate, self._num_steps, earlier.num_reuses + 1)
            elif self.low <= rate <= self.high:
                self._visited[prompt_id] = _Visited(rate, self._num_steps, 0)
        self._num_steps += 1

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """``waiting``: prompts that may come back."""
        return {"waiting": float(len(self.waiting()))}

    def state_dict(self) -> dict[str, Any]:
        """Steps so far, and what is kept of each prompt."""
        visited = {key: [seen.rate, seen.step, seen.num_reuses] for key, seen in self._visited.items()}
        return {"num_steps": self._num_steps, "visited": visited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._num_steps = int(state["num_steps"])
        self._visited = {
            key: _Visited(float(rate), int(step), int(num)) for key, (rate, step, num) in state["visited"].items()
        }

    def caveat(self) -> str:
        """What is preferred."""
        return (
            f"curriculum: up to {self.share:.0%} of a step are prompts whose last visit had a pass rate in "
            f"[{self.low:g}, {self.high:g}], and nothing undoes that: a prompt counts by how often it comes"
        )


PROMPT_REPLAY = known(
    Recipe(
        name="prompt_replay",
        card=Card(
            table="prompts",
            changes="prompts with mixed groups come back for up to 3/4 of a step",
            needs="the last visit",
            cost="16 per prompt",
            fidelity="after",
            departs=(
                "After arXiv:2603.21177. A prompt comes back if its pass rate is in [0.25, 0.75], after a rest of 10 "
                "steps, up to 15 times. Which fresh prompts make room is ours. A visit in the uniform order counts as "
                "one of the 15."
            ),
        ),
        checked=Comparison(
            rule="order, share, rest and number of returns",
            against="by hand",
            test="unit/methods/curriculum/test_revisits.py::test_a_prompt_rests_comes_back_and_has_had_enough",
        ),
        text="""
            Prompt Replay (after arXiv:2603.21177) on GRPO: prompts whose last group was mixed come back for up to three
            quarters of a step, with new responses. The paper's step has 32 prompts with groups of 16.
        """,
        curriculum=PromptReplay,
        sampler=use(UniformSampler, group_size=16),
        selection="all",
        advantage="grpo",
    )
)
