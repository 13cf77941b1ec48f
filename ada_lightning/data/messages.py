"""Chat turns as data sets write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ada_lightning.data.columns import StoredJson, parsed_json

_OF_PYTHON = re.compile(r"\s*\[\s*\{\s*'(?:role|content)'\s*:")


def read_turns(value: Any, changes: set[str] | None = None) -> list[dict[str, str]]:
    """Return the turns of a prompt: those of a list of messages, or one of the user for a text.

    Messages may be stored as JSON text. Keys of a message beside ``role`` and ``content`` are dropped. Content in parts
    is joined where all parts are text.

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
    messages = [item.value() if isinstance(item, StoredJson) else item for item in value] if _is_list(value) else value
    if _is_message(messages):
        messages = [messages]
    if not _is_list(messages) or not messages or not all(_is_message(item) for item in messages):
        inside = "" if not _is_list(messages) else f" of {type(messages[0]).__name__}" if messages else " without items"
        raise ValueError(
            f"must be text or a list of messages with role and content; found {type(messages).__name__}{inside}"
        )
    return [{"role": message["role"], "content": _content(message, changes)} for message in messages]


def _messages_in(text: str) -> Any:
    """Return the messages that a text is; None where it is a text like any other."""
    if "role" not in text or text.lstrip()[:1] not in ("[", "{"):
        return None
    found = parsed_json(text)
    if _is_message(found) or (_is_list(found) and found and all(map(_is_message, found))):
        return found
    if _OF_PYTHON.match(text):
        raise ValueError("holds messages as Python prints them, which is no JSON; write them with json.dumps")
    return None


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("role"), str) and "content" in item


def _content(message: Mapping[str, Any], changes: set[str]) -> str:
    if message.get("tool_calls"):
        raise ValueError("has a message that calls tools, which are not supported")
    if others := [str(key) for key in message if key not in ("role", "content") and message[key]]:
        changes.add(f"keys of messages beside role and content are left out: {', '.join(sorted(others))}")
    content = message["content"]
    if isinstance(content, str):
        parts = parsed_json(content) if content.lstrip().startswith("[") and '"type"' in content else None
        if not _is_list(parts) or not parts or not all(isinstance(part, Mapping) and "type" in part for part in parts):
            return _stored_text(content)
        if not isinstance(content, StoredJson):
            changes.add("content in parts stored as JSON text is read as parts")
        content = parts
    if not _is_list(content):
        raise ValueError(f"has a message whose content is not text but {type(content).__name__}")
    if len(content) > 1:
        changes.add("content in parts is joined")
    return "".join(_text_of(part) for part in content)


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
