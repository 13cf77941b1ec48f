"""A reward function of a user's that lets math-verify judge. Imported by reward workers, so without pytest."""

from __future__ import annotations

from typing import Any


def equal(completions: list[str], answer: list[str], **columns: Any) -> list[float]:
    from math_verify import parse, verify

    return [float(verify(parse(gold), parse(text))) for text, gold in zip(completions, answer, strict=True)]


def grade(text: str, answer: str) -> float:
    return equal([text], [answer])[0]
