"""A game: guess a number, told higher or lower."""

from __future__ import annotations

import re

from ada_lightning.core.protocols.environment import End, Environment
from ada_lightning.core.records import Completion, Prompt

_NUMBER = re.compile(r"[0-9]{1,6}")


class GuessTheNumber(Environment):
    """The first number of a turn is the guess; the secret is the prompt's ``answer``. Worth 1 where it is found.

    A turn without a number loses the game, as does running out of turns (``environment.max_turns``).
    """

    def start(self, prompt: Prompt, seed: int) -> None:
        """Take the secret.

        Raises:
            ValueError: the answer is no number.
        """
        if not str(prompt.reference.get("answer", "")).isdecimal():
            raise ValueError(f"its answer {prompt.reference.get('answer')!r} is not a number to guess; use data=guess")
        self.secret = int(prompt.reference["answer"])

    def turn(self, said: Completion) -> str | End:
        """Compare the guess with the secret."""
        found = _NUMBER.search(said.text)
        if found is None:
            return End(reward=0.0)
        guess = int(found[0])
        if guess == self.secret:
            return End(reward=1.0, answer=str(guess))
        return "higher" if guess < self.secret else "lower"

    def cut(self) -> End:
        """A game that was not won is lost."""
        return End(reward=0.0)
