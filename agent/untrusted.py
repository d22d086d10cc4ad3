"""Mark what was read from hosts, on its way to a language model, as data that cannot end its own mark.

A result stands between two lines with an id that is computed from its text with a key of this process: nobody
who writes on a host can know it, two results differ in it, and the same result keeps it, so that what a
server has computed of a conversation stays of use. A sign inside that looks like such a line is escaped.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from typing import Final

from agent.state import Message

TAG: Final = "untrusted"
"""Begins the two lines around every result of a tool; the system prompt says what they mean."""

_LIKE_A_MARK: Final = re.compile(rf"<(?=\s*/?\s*{TAG})", re.IGNORECASE)
_WRAPPED: Final = re.compile(rf"<{TAG} ([0-9a-f]{{16}})>\n(.*)\n</{TAG} \1>", re.DOTALL)
_KEY: Final = secrets.token_bytes(32)


def wrapped(text: str, key: bytes = _KEY) -> str:
    """Return a result between its two lines; JSON inside keeps its meaning."""
    # As JSON writes it, the sign is the same sign, so a view is read as before.
    inside = _LIKE_A_MARK.sub(r"\\u003c", text)
    mark = hmac.new(key, inside.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]
    return f"<{TAG} {mark}>\n{inside}\n</{TAG} {mark}>"


def unwrapped(text: str) -> str:
    """Return what stands between the two lines, or the text itself when it is not wrapped."""
    found = _WRAPPED.fullmatch(text)
    return found[2] if found else text


def marked(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with every result of a tool wrapped."""
    return [
        {**message, "content": wrapped(str(message["content"]))} if message["role"] == "tool" else message
        for message in messages
    ]
