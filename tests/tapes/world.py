"""The world that tapes are recorded in: prompts, responses, verdicts and latencies, all functions of seeds.

Plain Python, and nothing of the product: what is drawn for a prompt and a seed is the same before and after any change
of it. A response says in its tokens what its verdict will be: ``(verdict code, answer code, filler tokens ...)``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

VOCABULARY = 32
MAX_NEW_TOKENS = 12
RUN_SEED = 0
NUM_STEPS = 4
PROMPTS_PER_STEP = 5
PASS_RATES = (0.0, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 0.97, 1.0)
TEXTS = (
    "Add the numbers 3 and 4",
    "Add the numbers 17 and 25",
    "Multiply the numbers 3 and 4",
    "Multiply the numbers 17 and 25",
    "Spell the word apple backward",
    "Spell the word horse backward",
    "Count the letters of the word apple",
    "Count the letters of the word horse",
    "Sort the words horse apple tree",
    "Sort the numbers 25 17 3",
    "Which day comes before Monday",
    "Which day comes before Friday",
)
ANSWERS = ("right", "off by one", "other", None)
FAILURES = {11: "timeout", 12: "ValueError"}
"""Verdict codes of responses without one: graders that were too slow, and graders that raised. Codes up to 10 are
tenths of the reward."""
NO_COMPONENT = 0.35
"""Share of the right responses that miss the format."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a grader says of a response."""

    reward: float | None
    """None where grading failed."""
    failure: str
    answer: str | None
    components: dict[str, float]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A response before it is graded."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Near those of a uniform policy: a few tokens were far less probable to the engine, as with real ones."""
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class Latency:
    """When what comes back. Polls are the engine's steps."""

    name: str
    slots: int
    """Sequences that are generated at once."""
    polls: Callable[[random.Random, Drawn, int], int]
    """Until a response is complete, by a generator of its own, the response and how many were begun before it."""
    grader_delay: int = 0
    """Polls from a response to its verdict."""
    newest_first: bool = False
    """Verdicts that are due together come in the opposite order of the responses."""


def _positives_first(generator: random.Random, drawn: Drawn, number: int) -> int:
    return 1 if drawn.token_ids[0] > 7 else 9


LATENCIES = (
    Latency("instant", 256, lambda generator, drawn, number: 1),
    Latency("scattered", 16, lambda generator, drawn, number: generator.randint(1, 9), grader_delay=2),
    Latency("positives_first", 7, _positives_first, newest_first=True),
    Latency("last_first", 64, lambda generator, drawn, number: 1 + -number % 64, grader_delay=1, newest_first=True),
)


def prompt_tokens(number: int) -> tuple[int, ...]:
    """Tokens of a prompt; the first one names it."""
    return (number, 13 + number % 3, 16 + number % 5)[: 2 + number % 2]


def pass_rate(number: int, version: int) -> float:
    """Chance that a response is right; the policy learns a little."""
    rate = PASS_RATES[number]
    return rate if rate in (0.0, 1.0) else 1 / (1 + math.exp(-0.2 * version) * (1 - rate) / rate)


def representation(number: int) -> list[float]:
    """Where a prompt lies for estimators that ask the policy."""
    kind = number // 2
    return [math.sin(kind + 1), math.cos(kind + 1), math.sin(2 * kind), 0.3 * math.sin(number), PASS_RATES[number]]


def respond(number: int, seed: int, version: int, *, graded: bool) -> Drawn:
    """Draw the response of a seed to a prompt.

    Args:
        number: of the prompt.
        seed: of the response.
        version: of the policy.
        graded: rewards are tenths instead of 0 and 1.
    """
    generator = random.Random(seed)
    is_right = generator.random() < pass_rate(number, version)
    verdict = (generator.choice((8, 9, 10)) if is_right else generator.randint(0, 6)) if graded else 10 * is_right
    chance = generator.random()
    if chance < 0.06:
        verdict = 11 if chance < 0.03 else 12
    answer = 0 if is_right else generator.choice((1, 1, 2, 3))
    is_truncated = generator.random() < 0.08
    length = MAX_NEW_TOKENS if is_truncated else generator.randint(3, MAX_NEW_TOKENS - 1)
    tokens = (verdict, answer, *(generator.randint(16, VOCABULARY - 1) for _ in range(length - 2)))
    logprobs = tuple(
        round(-math.log(VOCABULARY) + generator.uniform(-0.25, 0.25) - 1.3 * (generator.random() < 0.04), 6)
        for _ in tokens
    )
    return Drawn(tokens, logprobs, is_truncated)


def text_of(token_ids: Sequence[int]) -> str:
    """What a tokenizer makes of a response."""
    return " ".join(map(str, token_ids))


def grade(text: str) -> Verdict:
    """Read the verdict that a response holds."""
    code, answer, *rest = map(int, text.split())
    if code in FAILURES:
        return Verdict(None, FAILURES[code], None, {})
    components = {"correct": float(code > 7), "format": float(sum(rest) % 100 >= 100 * NO_COMPONENT)}
    return Verdict(code / 10, "", ANSWERS[answer], components)


def checksum(text: str) -> int:
    """A short number that tells texts apart."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest())
