"""Make text from a host safe to show: what cannot be seen, or moves what can, becomes a visible escape."""

from __future__ import annotations

import re

_UNSEEN = (
    (0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x600, 0x605), (0x61C, 0x61C),
    (0x6DD, 0x6DD), (0x70F, 0x70F), (0x890, 0x891), (0x8E2, 0x8E2), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0x2800, 0x2800),
    (0x3164, 0x3164), (0xD800, 0xDFFF), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB), (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
"""Controls except tab and newline, format and bidi characters, blanks that are letters, half surrogates."""

_PATTERN = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSEEN) + "]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"<U+{code:04X}>"


def printable(text: str) -> str:
    r"""Return ``text`` with controls as ``\x1b`` and unseen characters as ``<U+202E>``; hide nothing."""
    return _PATTERN.sub(_escape, text)


def _escape_json(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def visible_json(text: str) -> str:
    """Return JSON text that means the same and holds no control and no unseen character as it is."""
    return _PATTERN.sub(_escape_json, text)
