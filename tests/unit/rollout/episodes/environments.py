"""Environments of tests, good and bad. Imported by workers, so without pytest."""

from __future__ import annotations

import random
import time

from ada_lightning.core.protocols.environment import End, Environment, Say


class OneTurn(Environment):
    """Ends after the first turn, for the reward to grade."""

    def turn(self, said):
        return End()


class Plain:
    """Derived from nothing."""

    def turn(self, said):
        return End()


class Misspelt(Environment):
    """Says nothing: the method has another name."""

    def trun(self, said):
        return End()


class Deaf(Environment):
    """Does not take what the model said."""

    def turn(self):
        return End()


class Whole(Plain):
    """Derived from nothing, with all that episodes call."""

    def start(self, prompt, seed): ...

    def cut(self):
        return End()


class Echo(Environment):
    """Says back what it heard, for so many turns."""

    def __init__(self, turns):
        self.turns = turns
        self.heard = []

    def turn(self, said):
        self.heard.append(said.text)
        return End() if len(self.heard) == self.turns else f"{len(self.heard)}: {said.text}"


class Noisy(Environment):
    """Asynchronous, with noise of its own and of Python's generator, and a reward that both decide."""

    async def start(self, prompt, seed):
        self.noise = random.Random(seed)
        self.drawn = []

    async def turn(self, said):
        self.drawn.append(self.noise.randrange(100) + random.randrange(100))
        if len(self.drawn) == 3:
            return End(reward=float(sum(self.drawn) % 2), components={"noise": float(sum(self.drawn))})
        return Say(str(self.drawn[-1]), num_calls=1, num_call_errors=self.drawn[-1] % 2)


class Slow(Echo):
    """As :class:`Echo`, after a while."""

    def turn(self, said):
        time.sleep(0.05)
        return super().turn(said)


class Rewarded(Environment):
    """Gives every turn a reward, and never ends."""

    def turn(self, said):
        return Say("go on", reward=0.25)


class Unlimited(Environment):
    """Never ends, and has an opinion about an episode that was cut."""

    def turn(self, said):
        return "go on"

    def cut(self):
        return End(reward=0.25)


class Endless(Environment):
    """Goes on where a limit says that it must end."""

    def __init__(self, says_text=True):
        self.says_text = says_text

    def turn(self, said):
        return "go on"

    def cut(self):
        return "go on" if self.says_text else Say("go on")
