"""Chat turns as data sets write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ada_lightning.data.columns import StoredJson, parsed_json

_OF_PYTHON = re.compile(r"\s*\[\s*\{\s*'(?:role|content)'\s*:")


def read_turns(value: Any, changes: set[str] | None = None) -> list[dict[str, str]]:
    """Return the turns of a prompt: those of a list of messages, or one of the user for a text.

    Messages may be stored as JSON text. Keys of a message other than ``role`` and ``content`` are dropped. Content in
    parts is joined if all parts are text.

    Args:
        value: of the column.
        changes: what was not taken as it stands is entered here, in words.

    Raises:
        ValueError: something else than text or messages, an empty list, messages as Python writes them, a message that
            calls tools, or content that is not text.

    Example:
        >>> read_turns("1 + 1 =")
        [{'role': 'user', 'content': '1 + 1 ='}]
    """
    changes = set() if changes is None else changes
    if isinstance(value, StoredJson):
        value = value.value()
    elif isinstance(value, str) and (found := _messages_in(value)) is not None:
        changes.add("messages stored as JSON text are read as messages")
        value = found
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    messages = value if isinstance(value, list) else [value]
    messages = [item.value() if isinstance(item, StoredJson) else item for item in messages]
    if not messages or not all(map(_is_message, messages)):
        found = type(value).__name__
        if isinstance(value, list):
            found += f" of {type(messages[0]).__name__}" if messages else " without items"
        raise ValueError(f"must be text or a list of messages with role and content; found {found}")
    return [{"role": message["role"], "content": _content(message, changes)} for message in messages]


def may_hold_answer(prompt: Any) -> bool:
    """Whether a prompt ends with a turn of the assistant, or cannot be read, which is said with the row."""
    try:
        return read_turns(prompt)[-1]["role"] == "assistant"
    except ValueError:
        return True


def _messages_in(text: str) -> Any:
    """Return the messages that a text is; None where it is a text like any other."""
    if "role" not in text or text.lstrip()[:1] not in ("[", "{"):
        return None
    found = parsed_json(text)
    if found and all(map(_is_message, found if isinstance(found, list) else [found])):
        return found
    if _OF_PYTHON.match(text):
        raise ValueError("holds messages as Python prints them, which is not JSON; write them with json.dumps")
    return None


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("role"), str) and "content" in item


def _content(message: Mapping[str, Any], changes: set[str]) -> str:
    if message.get("tool_calls"):
        raise ValueError("has a message that calls tools, which are not supported")
    if len(message) > 2 and (others := [str(key) for key in message.keys() - {"role", "content"} if message[key]]):
        changes.add(f"keys of messages other than role and content are left out: {', '.join(sorted(others))}")
    content = message["content"]
    if isinstance(content, str):
        if (parts := _parts_in(content)) is None:
            return _stored_text(content)
        if not isinstance(content, StoredJson):
            changes.add("content in parts stored as JSON text is read as parts")
        content = parts
    if not isinstance(content, list):
        raise ValueError(f"has a message whose content is not text but {type(content).__name__}")
    if len(content) > 1:
        changes.add("content in parts is joined")
    return "".join(_text_of(part) for part in content)


def _parts_in(content: str) -> list[Any] | None:
    """Return the parts that a text is; None where it is a text like any other."""
    if content.lstrip()[:1] != "[" or '"type"' not in content:
        return None
    parts = parsed_json(content)
    return parts if parts and all(isinstance(part, Mapping) and "type" in part for part in parts) else None


def _stored_text(content: str) -> str:
    """Take a stored JSON string for what it says, and what else looks like JSON for a text."""
    found = content.value() if isinstance(content, StoredJson) else content
    return found if isinstance(found, str) else str(content)


def _text_of(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) and part.get("type", "text") == "text" else part
    if not isinstance(text, str):
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        raise ValueError(f"has content that is not text: {kind}")
    return text
