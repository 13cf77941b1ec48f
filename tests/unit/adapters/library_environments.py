"""Environments of a library of tests. Imported by workers, so without pytest."""

from __future__ import annotations

import random
from itertools import count

from ada_lightning.adapters.environments.library import SeededEnvironment

_BEGUN = count()


class Numbers(SeededEnvironment):
    """A number to guess, from Python's own generator as careless libraries draw it; a guess is worth a tenth."""

    package, tested = "pytest", ((1, 0), (99, 0))
    modules = ("colorsys",)
    probe = ("50",)

    def begin(self, seed):
        self.secret = random.randrange(100)
        return f"Guess a number. Hint: {self.secret % 10}."

    def answer(self, text):
        guess = int(text)
        return f"{'higher' if guess < self.secret else 'lower'}", 0.1, guess == self.secret


class Forgetful(Numbers):
    """Ignores its seed behind what it says first."""

    def begin(self, seed):
        self.secret = 99 * (next(_BEGUN) % 2)
        return "Guess a number."


class Untested(Numbers):
    tested = ((0, 1), (0, 2))


class Missing(Numbers):
    package = "no-such-package"
