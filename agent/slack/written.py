"""What stands in a message of Slack: its text, its blocks and attachments, and that there are files."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MOST_CHARS: Final = 12_000
_SPECIAL: Final = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
_MOST_PARTS: Final = 50
"""Of blocks, and of what stands in one; Slack takes no more in a message."""


def words(text: str, bot_user: str) -> str:
    """Return what a person wrote, without the mention of the bot and without Slack's own signs."""

    def plain(match: re.Match[str]) -> str:
        sign, inside, label = match.groups()
        if sign == "@":
            return "" if inside == bot_user else f"@{label or inside}"
        if sign == "#":
            return f"#{label or inside}"
        return f"@{inside}" if sign == "!" else (label if label and label != inside else inside)

    return shortened(html.unescape(_SPECIAL.sub(plain, text)).strip(), MOST_CHARS)


def shortened(text: str, most: int) -> str:
    """Return text, or its beginning with how much is left out."""
    return text if len(text) <= most else f"{text[:most]} [{len(text) - most} more characters are left out]"


def written(message: Mapping[str, Any]) -> str:
    """Return all that a message says, in Slack's markup; programs put it into blocks and attachments."""
    text = str(message.get("text") or "")
    parts = [text, *(part for part in _blocks(message) if part not in text), *_attachments(message)]
    return "\n".join(part for part in parts if part)


def files(message: Mapping[str, Any]) -> str:
    """Return which files hang on a message: what is in them is not read."""
    found = [one for one in message.get("files") or [] if isinstance(one, dict)][:10]
    names = [f"{one.get('name') or 'a file'} ({one.get('mimetype') or 'unknown'})" for one in found]
    return f"[files, not read: {', '.join(names)}]" if names else ""


def _blocks(message: Mapping[str, Any]) -> Iterator[str]:
    """Give the texts of blocks; a person's own are the text once more."""
    if not message.get("bot_id"):
        return
    for block in _objects(message.get("blocks")):
        yield from _texts(block, depth=4)


def _texts(block: Mapping[str, Any], depth: int) -> Iterator[str]:
    text = block.get("text")
    if isinstance(text, dict):
        text = text.get("text")
    if isinstance(text, str) and text:
        yield text
    if depth:
        for name in ("fields", "elements"):
            for part in _objects(block.get(name)):
                yield from _texts(part, depth - 1)


def _attachments(message: Mapping[str, Any]) -> Iterator[str]:
    for one in _objects(message.get("attachments"))[:10]:
        yield from (str(one[name]) for name in ("title", "text") if one.get(name))
        for field in _objects(one.get("fields"))[:20]:
            yield f"{field.get('title')}: {field.get('value')}"
        for block in _objects(one.get("blocks")):
            yield from _texts(block, depth=4)
        if not one.get("title") and not one.get("text") and one.get("fallback"):
            yield str(one["fallback"])


def _objects(value: Any) -> list[Mapping[str, Any]]:
    found = value[:_MOST_PARTS] if isinstance(value, list) else []
    return [one for one in found if isinstance(one, dict)]
