"""Prompts for the environments that come with this project: sums for a calculator, numbers to guess."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from ada_lightning.core.records import Prompt
from ada_lightning.data.prompts import stable_hash

Messages = tuple[Mapping[str, str], ...]


class _EpisodeTasks:
    """Distinct prompts with a worked example as turns before the question, split by a seed.

    Without the example no response of an untrained small model uses the environment at all, and there is nothing to
    learn from.

    Args:
        num_train: training prompts.
        num_heldout: held-out prompts; 0 for none.
        seed: of the tasks.

    Raises:
        ValueError: a count is out of range.
    """

    task = ""
    num_distinct = 0

    def __init__(self, *, num_train: int, num_heldout: int, seed: int) -> None:
        if num_train < 1 or num_heldout < 0:
            raise ValueError(
                "data.source needs num_train of at least 1 and num_heldout of at least 0; got "
                f"{num_train} and {num_heldout}"
            )
        if num_train + num_heldout > self.num_distinct // 2:  # found by drawing: more of them would take for ever
            raise ValueError(
                f"data.source has at most {self.num_distinct // 2} distinct tasks, and num_train + num_heldout = "
                f"{num_train + num_heldout}; lower them"
            )
        self.num_train, self.num_heldout, self.seed = num_train, num_heldout, seed

    def train_prompts(self) -> Sequence[Prompt]:
        """Prompts to learn from."""
        return self._drawn[self.num_heldout :]

    def heldout_prompts(self) -> Sequence[Prompt]:
        """Prompts to evaluate on; none of them is a training prompt."""
        return self._drawn[: self.num_heldout]

    @cached_property
    def _drawn(self) -> list[Prompt]:
        generator = random.Random(f"{self.seed}/{self.task}")
        found: dict[str, Prompt] = {}
        while len(found) < self.num_train + self.num_heldout:
            messages, answer = self._make(generator)
            prompt_id = stable_hash(self.task, [dict(message) for message in messages], answer)
            found[prompt_id] = Prompt(prompt_id, messages, {"answer": answer}, self.task)
        return list(found.values())

    def _make(self, generator: random.Random) -> tuple[Messages, str]:
        raise NotImplementedError


class CalculatorTasks(_EpisodeTasks):
    """Sums of three numbers of three digits, with one that was done by the calculator before it."""

    task = "calculator"
    num_distinct = 900**3

    def _make(self, generator: random.Random) -> tuple[Messages, str]:
        shown, asked = ([generator.randint(100, 999) for _ in range(3)] for _ in range(2))
        example = " + ".join(map(str, shown))
        question = " + ".join(map(str, asked))
        messages = _conversation(
            f"What is {example}?",
            f"calc: {example}",
            f"result: {sum(shown)}",
            str(sum(shown)),
            f"What is {question}?",
        )
        return messages, str(sum(asked))


class GuessTasks(_EpisodeTasks):
    """Numbers among seven in a row, with a game that was won before it."""

    task = "guess"
    num_distinct = 7 * 900 * 7

    def _make(self, generator: random.Random) -> tuple[Messages, str]:
        low, secret, shown = generator.randint(1, 900), generator.randint(0, 6), generator.randint(0, 6)
        turns = [f"Guess my number from {low} to {low + 6}."]
        for guess in _bisection(lambda guess: (shown > guess) - (shown < guess)):
            turns.append(str(low + guess))
            turns.append("higher" if guess < shown else "lower")
        turns[-1] = f"correct. Guess my next number from {low} to {low + 6}."
        return _conversation(*turns), str(low + secret)


def _bisection(compare: Callable[[int], int]) -> list[int]:
    """Guesses among 0 to 6 by halves, until one is right."""
    guesses, low, high = [], 0, 6
    while True:
        guesses.append((low + high) // 2)
        if (sign := compare(guesses[-1])) == 0:
            return guesses
        low, high = (guesses[-1] + 1, high) if sign > 0 else (low, guesses[-1] - 1)


def _conversation(*turns: str) -> Messages:
    """Turns of the user and the model in turn, the user's first."""
    return tuple({"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(turns))
