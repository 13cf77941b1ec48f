"""Reward functions that a random model can satisfy, and some that misbehave. Run in worker processes."""

from __future__ import annotations

from ada_lightning.core.records import Prompt, Verdict


def has_few_letters(prompt: Prompt, text: str) -> float:
    """About half of a random byte model's texts pass."""
    return float(sum(character.isalpha() for character in text) * 3 < len(text))


def counts_letters(prompt: Prompt, text: str) -> Verdict:
    """As :func:`has_few_letters`; the answer is the number of letters."""
    return Verdict(has_few_letters(prompt, text), str(sum(character.isalpha() for character in text)))


counts_letters.answers_without_reference = True


def counts_letters_of_wrong_answers(prompt: Prompt, text: str) -> Verdict:
    """Nothing is right."""
    return Verdict(0.0, counts_letters(prompt, text).answer)


counts_letters_of_wrong_answers.answers_without_reference = True


def share_of_letters(prompt: Prompt, text: str) -> float:
    """A reward with many values."""
    return sum(character.isalpha() for character in text) / max(len(text), 1)


def with_components(prompt: Prompt, text: str) -> Verdict:
    """Two components that do not depend on each other; the first is the reward."""
    correct, form = has_few_letters(prompt, text), float(len(text) % 2)
    return Verdict(correct, components={"correct": correct, "format": form})
