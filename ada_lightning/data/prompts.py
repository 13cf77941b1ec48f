"""What every prompt source does the same way: chat turns and stable ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from ada_lightning.core.records import Prompt

SLOT = "{prompt}"
"""Where the text goes in a prompt template; other braces mean themselves."""
_to_json = json.JSONEncoder(ensure_ascii=False).encode
"""As ``json.dumps``, which would make an encoder for every row."""


def chat_messages(content: str, system_prompt: str | None) -> tuple[Mapping[str, str], ...]:
    """Return the user's turn, after a system turn where there is one.

    Example:
        >>> chat_messages("1 + 1 =", None)
        ({'role': 'user', 'content': '1 + 1 ='},)
    """
    user = {"role": "user", "content": content}
    return (user,) if system_prompt is None else ({"role": "system", "content": system_prompt}, user)


def stable_hash(*parts: Any) -> str:
    """Hash JSON-like parts to 16 hexadecimal digits, the same on every machine and in every run.

    Example:
        >>> stable_hash("chain_sum", "1 + 1 =", "2")
        '58b1b1285ea86c00'
    """
    return hashlib.sha256(_to_json(parts).encode()).hexdigest()[:16]


def stable_hashes(first: Any, *columns: Sequence[str]) -> NDArray[np.uint64]:
    """Return what :func:`stable_hash` returns of a first part and the texts of each row, as numbers.

    Example:
        >>> [f"{key:016x}" for key in stable_hashes("chain_sum", ["1 + 1 ="], ["2"])]
        ['58b1b1285ea86c00']
    """
    begin, sha256 = f"[{_to_json(first)}, ", hashlib.sha256
    rows = map(", ".join, zip(*(map(encode_basestring, column) for column in columns), strict=True))
    digests = b"".join([sha256(f"{begin}{row}]".encode()).digest()[:8] for row in rows])
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def joined_turns(messages: Sequence[Mapping[str, str]]) -> str:
    """Return all that the model is asked as one text, whatever the template arguments."""
    return "\x1f".join([part for message in messages for part in (message["role"], message["content"])])


def text_key(messages: Sequence[Mapping[str, str]]) -> int:
    """Return a number that two prompts share when the model is asked the same: a hash of :func:`joined_turns`."""
    return xxhash.xxh3_64_intdigest(joined_turns(messages).encode())


def same_text(prompt: Prompt) -> tuple[tuple[str, str], ...]:
    """Return a key that two prompts share when the model is asked the same, whatever their template arguments."""
    return tuple([(message["role"], message["content"]) for message in prompt.messages])


def place_of(source: object, prompt_id: str) -> str:
    """Return where a prompt stands in the files of its source (``a.jsonl, line 7``), else its id."""
    find = getattr(source, "place_of", None)
    return (callable(find) and find(prompt_id)) or f"prompt {prompt_id}"


def largest_remainder(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Split a total in proportion to weights: whole parts first, the rest to the largest remainders.

    Example:
        >>> largest_remainder(10, {"a": 2, "b": 1})
        {'a': 7, 'b': 3}
    """
    exact = {name: total * weight / sum(weights.values()) for name, weight in weights.items()}
    counts = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts
