"""What every prompt source does the same way: chat turns and stable ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ada_lightning.types import Prompt

SLOT = "{prompt}"
"""Where the text goes in a prompt template; other braces mean themselves."""


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
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:16]


def same_text(prompt: Prompt) -> tuple[tuple[str, str], ...]:
    """Return a key that two prompts share when the model is asked the same."""
    return tuple((message["role"], message["content"]) for message in prompt.messages)
