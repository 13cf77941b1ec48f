"""Random numbers that depend only on a seed and their purpose, not on what else is computed.

A generator gives the next number to whoever asks next, so a mask drawn with one depends on the split into microbatches
and on what was drawn before. Here a number is a hash of its own key: the same for the same response, token and seed.
"""

from __future__ import annotations

from hashlib import blake2b

import torch
from torch import Tensor

_GAMMA, _FIRST, _SECOND = (
    value - 2**64 for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)  # as int64, whose products wrap
_BITS = 24
"""All that a float32 in [0, 1) can hold."""


def response_identity(*, step: int, slot: int, prompt_id: str, sample_index: int) -> int:
    """Name one response of a run by an integer in [0, 2**63)."""
    key = "\x1f".join(map(str, (step, slot, prompt_id, sample_index)))
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) >> 1


def seeded_uniform(*keys: Tensor, seed: int) -> Tensor:
    """Uniform numbers in [0, 1), each a function of its keys and the seed alone, on every device the same.

    Args:
        *keys: int64, of shapes that broadcast; together they name what a number is for.
        seed: of all of them.

    Returns:
        Of the keys' common shape, float32.

    Source:
        The finaliser of SplitMix64 (Steele, Lea and Flood 2014), once for each key.
    """
    state = _mix(torch.tensor(seed, dtype=torch.int64, device=keys[0].device) + _GAMMA)
    for key in keys:
        state = _mix(state ^ _mix(key + _GAMMA))
    return _shifted(state, 64 - _BITS).to(torch.float32) / 2**_BITS


def _mix(value: Tensor) -> Tensor:
    value = (value ^ _shifted(value, 30)) * _FIRST
    value = (value ^ _shifted(value, 27)) * _SECOND
    return value ^ _shifted(value, 31)


def _shifted(value: Tensor, bits: int) -> Tensor:
    """Shift right, zeros from the left: torch's own shift of an int64 keeps the sign."""
    return (value >> bits) & (2 ** (64 - bits) - 1)
