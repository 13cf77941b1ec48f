"""Tokens that end a response."""

from __future__ import annotations

from typing import Any


def end_ids(tokenizer: Any, generation_config: Any) -> frozenset[int]:
    """Return them, by a model's tokenizer and its generation config, either of which may be None."""
    ids = getattr(generation_config, "eos_token_id", None)
    found = [getattr(tokenizer, "eos_token_id", None), *(ids if isinstance(ids, list | tuple) else [ids])]
    return frozenset(int(token) for token in found if token is not None)
