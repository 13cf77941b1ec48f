"""Recycling (arXiv:2606.10709): prompts that had a signal are retired, those that had none stay.

Claim: none; it is a control. Filters hold that a prompt without a signal will have none the next time. If a run that
    keeps just those learns as much, or a fair share of them has a signal the next time (``curriculum/flipped``), a
    filter's gain is not what it says.
Fidelity: after. Retired where there was a signal; what comes when all are retired is ours.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Curriculum, Recall
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known

_IN_USE = -1


@option("curriculum", "retired")
class RetiredCurriculum(Curriculum):
    """Prompts that had a signal are retired and the others keep coming: a control for every filter.

    After Recycling, arXiv:2606.10709. Asks no estimator; ``curriculum/flipped`` says how many prompts without a signal
    had one the next time. A prompt leaves when its last group had different rewards. Of prompts in use those come first
    that came least often, in random order. When fewer are left than a step takes, the ones retired longest come back.
    """

    def __init__(self) -> None:
        self._num_steps = 0
        self._visited: dict[str, tuple[int, int]] = {}
        """Step that retired it, or -1, and visits, by prompt id."""
        self._flipped = 0, 0

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return the step's prompts, shuffled; ``recall`` is not called."""
        generator = random.Random(f"{seed}/retired/{step}")
        order = sorted(
            (*self._visited.get(prompt.prompt_id, (_IN_USE, 0)), generator.random(), position)
            for position, prompt in enumerate(prompts)
        )
        listed = [prompts[position] for *_, position in order]
        num_whole, num_left = divmod(num_prompts, len(prompts))
        chosen = listed * num_whole + listed[:num_left]
        generator.shuffle(chosen)
        return chosen

    def observe(self, pools: Sequence[ResponsePool]) -> None:
        """Retire what had a signal; count how many did so that had none at their last visit."""
        evident = [pool for pool in pools if pool.num_sampled]
        again = [pool for pool in evident if self._visited.get(pool.prompt.prompt_id, (0, 0))[0] == _IN_USE]
        self._flipped = sum(pool.has_signal for pool in again), len(again)
        for pool in evident:
            _, num_visits = self._visited.get(pool.prompt.prompt_id, (_IN_USE, 0))
            self._visited[pool.prompt.prompt_id] = self._num_steps if pool.has_signal else _IN_USE, num_visits + 1
        self._num_steps += 1

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """``retired``: prompts; ``flipped``: share of last step's prompts without a signal before that had one now."""
        num_flipped, num_again = self._flipped
        retired = float(sum(step != _IN_USE for step, _ in self._visited.values()))
        return {"retired": retired} | ({"flipped": num_flipped / num_again} if num_again else {})

    def state_dict(self) -> dict[str, Any]:
        """Steps so far, visits by prompt id, and what the last step showed."""
        visited = {key: list(seen) for key, seen in self._visited.items()}
        return {"num_steps": self._num_steps, "visited": visited, "flipped": list(self._flipped)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._num_steps = int(state["num_steps"])
        self._visited = {key: (int(step), int(num)) for key, (step, num) in state["visited"].items()}
        num_flipped, num_again = state["flipped"]
        self._flipped = int(num_flipped), int(num_again)

    def caveat(self) -> str:
        """What is preferred."""
        return (
            "curriculum: prompts whose last group had a signal are retired and the others come again, and nothing "
            "undoes that: a prompt counts by how often it comes"
        )


RECYCLING = known(
    Recipe(
        name="recycling",
        card=Card(
            table="prompts",
            changes="retires prompts that had a signal: the control of every filter",
            cost="4 per prompt",
            fidelity="after",
            departs=(
                "After arXiv:2606.10709. Prompts without a signal come again. What comes when all are retired is ours."
            ),
        ),
        checked=Comparison(
            rule="which prompts retire and which come again",
            against="by hand",
            test=(
                "unit/methods/curriculum/test_revisits.py::test_what_had_a_signal_is_retired_and_what_had_none_comes_again"
            ),
        ),
        text="""
            Retires prompts whose group had a signal, while those without one keep coming: the control of every filter
            (after Recycling, arXiv:2606.10709), on GRPO. Compare it with greso and grpo_chosen at the same number of
            responses. curriculum/flipped is the share of prompts without a signal that had one the next time.
        """,
        curriculum=RetiredCurriculum,
        sampler="uniform",
        selection="all",
        advantage="grpo",
    )
)
