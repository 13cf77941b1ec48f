"""Where a method does something else than its tape says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

TOLERANCE = 1e-6
"""Largest difference of two numbers, as a share of the larger one or of the largest in the same list or dictionary:
float32 has 6e-8, a dozen roundings are allowed, and sums that cancel to about nothing are compared with their terms."""
OF_LOGPROBS = 2e-5
"""The same for what torch adds up in float32 from log-probabilities, and for weights and optimiser state of a network
that a method trains beside the policy. Their terms cancel, and processors with other vector units add them in another
order. A log-probability of 5 nats is rounded to 5e-7, and a hundredth of the difference of two is an advantage of 8e-4
on a tape: 6e-6 of it. Three times that, which was seen between two processors with AVX-512."""
SUMMED = ("loss", "gradient_norm", "coefficient of", "state.estimator.head.", "state.loss.partition.")


def differences(recorded: list[Any], played: list[Any], summed: Sequence[str] = SUMMED) -> Iterator[str]:
    """Yield a line for every difference: step, prompt, field, both values.

    Args:
        recorded: ``steps`` of a tape.
        played: the same of another run.
        summed: parts of the names of numbers that log-probabilities make.
    """
    if len(recorded) != len(played):
        yield f"{len(recorded)} steps recorded, now {len(played)}"
    for number, (old, new) in enumerate(zip(recorded, played, strict=False)):
        yield from _slots(f"step {number}, prompts", old["prompts"], new["prompts"], summed)
        if len(old["updates"]) != len(new["updates"]):
            yield f"step {number}: {len(old['updates'])} updates recorded, now {len(new['updates'])}"
        for index, (one, other) in enumerate(zip(old["updates"], new["updates"], strict=False)):
            yield from _update(f"step {number}, update {index}", one, other, old["prompts"])
        yield from compare(f"step {number}, state", old["state"], new["state"])


def _slots(where: str, old: dict[str, Any], new: dict[str, Any], summed: Sequence[str]) -> Iterator[str]:
    for slot in sorted({*old, *new}, key=lambda name: (len(name), name)):
        if slot not in old or slot not in new:
            yield f"{where}: slot {slot} is {'recorded and missing now' if slot in old else 'new'}"
            continue
        prompt = old[slot].get("prompt", "")
        yield from compare(f"{where}: slot {slot} {prompt}".rstrip(), old[slot], new[slot], summed=summed)


def _update(where: str, old: dict[str, Any], new: dict[str, Any], prompts: dict[str, Any]) -> Iterator[str]:
    """Compare the sums of an update; a response without a coefficient has 0."""
    one, other = old["coefficients"], new["coefficients"]
    total = sum(map(abs, one.values()))
    for name in ("loss", "gradient_norm"):
        yield from compare(f"{where}: {name}", old[name], new[name], scale=total)
    yield from compare(f"{where}: denominators", old["denominators"], new["denominators"])
    scale = max(map(abs, one.values()), default=0.0)
    for name in sorted({*one, *other}):
        slot, _, index = name.partition("/")
        prompt = prompts.get(slot, {}).get("prompt", "")
        place = f"{where}: coefficient of slot {slot} {prompt} response {index}"
        yield from compare(place, one.get(name, 0.0), other.get(name, 0.0), scale=scale)


def compare(where: str, old: Any, new: Any, scale: float = 0.0, summed: Sequence[str] = SUMMED) -> Iterator[str]:
    """Yield a line for every difference between two plain values."""
    if isinstance(old, dict) and isinstance(new, dict):
        inner = _largest(old.values())
        for key in sorted({*old, *new}):
            if key not in old or key not in new:
                yield f"{where}.{key}: {'recorded and missing now' if key in old else f'new: {_short(new[key])}'}"
            else:
                yield from compare(f"{where}.{key}", old[key], new[key], inner, summed)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new) or not _has_floats(old):
            if old != new:
                yield f"{where}: recorded {_short(old)}, now {_short(new)}"
            return
        inner = _largest(old)
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from compare(f"{where}[{index}]", one, other, inner, summed)
    elif not _are_equal(old, new, scale, OF_LOGPROBS if any(name in where for name in summed) else TOLERANCE):
        yield f"{where}: recorded {_short(old)}, now {_short(new)}"


def _are_equal(old: Any, new: Any, scale: float, tolerance: float) -> bool:
    if not (isinstance(old, float) or isinstance(new, float)) or isinstance(old, str) or isinstance(new, str):
        return bool(old == new)
    if old is None or new is None:
        return False
    return abs(old - new) <= tolerance * max(abs(old), abs(new), scale)


def _has_floats(values: list[Any]) -> bool:
    return any(isinstance(value, float | list | dict) for value in values)


def _largest(values: Any) -> float:
    return max((abs(value) for value in values if isinstance(value, float)), default=0.0)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
