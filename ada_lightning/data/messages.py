"""Chat turns as data sets write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def read_turns(value: Any) -> list[dict[str, str]]:
    """Return the turns of a prompt: those of a list of messages, or one of the user for a text.

    Keys of a message beside ``role`` and ``content`` are dropped. Content in parts is joined where all parts are text.

    Raises:
        ValueError: something else than text or messages, an empty list, a message that calls tools, or content that is
            not text.

    Example:
        >>> read_turns("1 + 1 =")
        [{'role': 'user', 'content': '1 + 1 ='}]
    """
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list) or not value or not all(_is_message(item) for item in value):
        inside = "" if not isinstance(value, list) else f" of {type(value[0]).__name__}" if value else " without items"
        raise ValueError(
            f"must be text or a list of messages with role and content; found {type(value).__name__}{inside}"
        )
    return [{"role": message["role"], "content": _content(message)} for message in value]


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("role"), str) and "content" in item


def _content(message: Mapping[str, Any]) -> str:
    if message.get("tool_calls"):
        raise ValueError("has a message that calls tools, which are not supported")
    content = message["content"]
    if isinstance(content, list):
        return "".join(_text_of(part) for part in content)
    if not isinstance(content, str):
        raise ValueError(f"has a message whose content is not text but {type(content).__name__}")
    return content


def _text_of(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) and part.get("type", "text") == "text" else part
    if not isinstance(text, str):
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        raise ValueError(f"has content that is not text: {kind}")
    return text
