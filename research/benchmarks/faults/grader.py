"""A reward whose answers come when they come, as those of a busy machine or a server do."""

from __future__ import annotations

import random
import time

from ada_lightning.core.records import Prompt

_CLOCK = random.SystemRandom()


def few_letters_later(prompt: Prompt, text: str) -> float:
    """About half of a random byte model's texts pass, after 0 to 30 ms."""
    time.sleep(0.03 * _CLOCK.random())
    return float(sum(character.isalpha() for character in text) * 3 < len(text))
