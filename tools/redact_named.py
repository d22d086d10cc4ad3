"""Mask the values behind the names of secrets: in environments, JSON, YAML, code, logs and command lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from tools.redact_marks import MASKED, MASKED_OPEN, compiled, placeholder
from tools.redact_names import harmless, strength

_WORDS: Final = (
    rb"secrets?|passw(?:or)?ds?|passphrase|pwd|api[_.-]?keys?|access[_.-]?keys?|private[_.-]?keys?"
    rb"|secret[_.-]?keys?|(?:auth|signing|encryption|master|account|service|shared|ssh)[_.-]?keys?|credentials?"
    rb"|preshared[_.-]?keys?|psk|[_.-]pass|[_.-]pw|cookie|authorization|requirepass|masterauth"
)
_PART: Final = rb"[A-Za-z0-9_.-]*"
_FILL: Final = {
    # Between an item of a YAML list and the next: comments, and what diff and grep -n put before a line.
    b"NEXT": (
        rb"(?:\n[ \t]*#[^\n]*)*\n(?:[^\s\"']{0,160}[0-9][:-]|[^\n]{0,160}?\]:|[+ -])?[ \t]*-[ \t]+"
        rb"(?:[|>][+-]?[ \t]*\r?\n[ \t]*)?"
    ),
    b"TOKEN": _PART + rb"tokens?" + _PART,
    b"OTHER": _PART + rb"(?:" + _WORDS + rb")" + _PART,
    b"NAME": _PART + rb"(?:tokens?|" + _WORDS + rb")" + _PART,
    # A log of a log of a request has JSON in JSON in JSON.
    b"Q": rb"(?:\\{0,7}[\"'])",
    b"BARE": rb"[^\s\"'\x00]",
    b"SEP": rb"[ \t]*(?::=|=>|={1,3}|:|(?:%22)?%3[ad](?:%20)?(?:%22)?)[ \t]*",
}


def _filled(pattern: bytes) -> bytes:
    """Return a pattern with the parts written as ``{NAME}`` filled in."""
    for key, value in _FILL.items():
        pattern = pattern.replace(b"{" + key + b"}", value)
    return pattern


_NAMED: Final = _filled(rb"(?i)({OTHER})({Q}?\]?{SEP})({Q})?{BARE}")
# Numbers behind `token` are counts; left out here, since every line of an engine's log has some.
_TOKEN: Final = _filled(rb"(?i)({TOKEN})({Q}?\]?{SEP})({Q})?(?:[^\s\"'\x00\d]|\d[\d.]*[^\s\"'\x00\d.,)])")
_FLAG: Final = _filled(
    rb"(?i)(--?{NAME})"
    rb"({Q}?(?:[ \t]*,[ \t\r\n]*|\r?{NEXT}|[ \t]+\\\r?\n[ \t]*|[ \t\r\n\x00]+(?:-[ \t]+)?))"
    rb"({Q})?[^\s\"'\x00-]"
)
_PAIR: Final = _filled(
    rb"(?i)\bname{Q}?[ \t]*:[ \t]*{Q}?({NAME})({Q}?,?\s*{Q}?value{Q}?[ \t]*:[ \t]*)({Q})?{BARE}"
)
# As languages print a value: bytes, Some("..."), SecretStr('...').
_WRAPPED: Final = _filled(rb"(?i)({NAME})({Q}?\]?{SEP}(?:b|Some\(|SecretStr\())({Q}){BARE}")
PATTERNS: Final = (_PAIR, _NAMED, _TOKEN, _WRAPPED, _FLAG)
_PROSE: Final = re.compile(
    "to|or|and|is|for|the|in|if|flag|option|when|with|was|must|can|argument|from|as|on|of|it|that|which|should|has"
)
_BARE_END: Final = re.compile(rb"[\s\"'\x00]")
_LINE_END: Final = re.compile(rb"[\r\n\"'\x00]")
_LIST: Final = re.compile(rb"[\[(]\s*\\?[\"']")
_ITEM: Final = re.compile(rb"[\s,]*(\\?[\"'])")
_LONG: Final = 2048
"""A value of this size is masked whatever it is, so that no text makes us read it again and again."""


@lru_cache(maxsize=8)
def _parts(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern)


def mask_named(data: bytes) -> bytes:
    """Mask the values behind the names of secrets: quoted to the closing quote, else to the next blank."""
    for pattern in PATTERNS:
        data = _masked(pattern, data)
    return data


def _masked(pattern: bytes, data: bytes) -> bytes:
    out: list[bytes] = []
    done = 0
    for start, end in _values(pattern, data):
        if start >= done:
            out += (data[done:start], placeholder("secret", data[start:end]))
            done = end
    return b"".join((*out, data[done:])) if out else data


def _values(pattern: bytes, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each secret value that stands behind a name."""
    found_by, parts = compiled(pattern), _parts(pattern)
    position = 0
    # RE2 finds the place in linear time; taking it apart there is many times faster with `re`.
    while (found := found_by.search(data, position)) is not None:
        match = parts.match(data, found.start())
        if match is None:
            position = found.end()
            continue
        name = _name(data, match.start(1), match[1])
        if strength(name) == "none":  # most are counts of tokens
            position = match.end(3) if match[3] else match.end(2)
            continue
        start = match.end(3) if match[3] else match.end(2)
        if match[3] is None and strength(name) == "strong" and _LIST.match(data, start):
            items = list(_items(data, start + 1, name))
            yield from items
            position = max([match.end(), *(end for _, end in items)])
            continue
        quote = match[3] or _quote_before(data, match.start(1), match[2])
        query = data[max(match.start() - 1, 0) : match.start()] in (b"?", b"&")
        end = _value_end(data, start, quote, name, query=query)
        if not _in_mask(data, match.start()) and _is_secret(
            name, match[2], quote, data[start:end], flag=pattern is _FLAG
        ):
            yield start, end
            position = max(end, match.end())
        else:
            position = start


def _in_mask(data: bytes, start: int) -> bool:
    """Tell whether a name is the kind that a placeholder names."""
    return start >= len(MASKED_OPEN) and MASKED.match(data, start - len(MASKED_OPEN)) is not None


def _items(data: bytes, position: int, name: str) -> Iterator[tuple[int, int]]:
    """Yield the quoted values of a list behind the name of a secret, as in ``api_key=['a', 'b']``."""
    limit = position + _LONG
    while position < limit and (match := _ITEM.match(data, position)) is not None:
        start = match.end()
        end = _quoted_end(data, start, match[1])
        value = data[start:end].decode("latin-1")
        if not MASKED.match(data, start) and not harmless(name, "strong", value, assigned=False):
            yield start, end
        position = end + len(match[1])


def _quote_before(data: bytes, start: int, separator: bytes) -> bytes | None:
    """Return the quote that opened before the name, as in ``"NAME=a value"``."""
    if separator[:1] in b"\"'\\" or data[start - 1 : start] not in (b'"', b"'"):
        return None
    return data[start - 2 : start] if data[start - 2 : start - 1] == b"\\" else data[start - 1 : start]


def _name(data: bytes, start: int, found: bytes) -> str:
    """Return the name without the letters that belong to an escape sequence before it."""
    if data[start - 1 : start] == b"\\":
        found = found[1:]
    elif b"\x1b[" in data[max(0, start - 12) : start]:
        found = re.sub(rb"^[0-9]*m", b"", found)
    return found.decode("ascii").lstrip("-.")


def _value_end(data: bytes, start: int, quote: bytes | None, name: str, *, query: bool) -> int:
    """Return where a value ends; one that is not quoted ends before closing punctuation."""
    if quote is not None:
        return _quoted_end(data, start, quote)
    whole_line = name.lower() in ("authorization", "proxy-authorization", "cookie", "set-cookie")
    ending = _LINE_END if whole_line else _BARE_END
    found = ending.search(data, start, start + _LONG) or ending.search(data, start)
    end = found.start() if found else len(data)
    if query and (cut := data.find(b"&", start, end)) >= 0:
        end = cut
    while end > start + 1 and data[end - 1 : end] in b",;)]}\\":
        end -= 1
    return end


def _quoted_end(data: bytes, start: int, quote: bytes) -> int:
    """Return where the quote is closed, on the same line and not behind an odd number of backslashes."""
    line_end = data.find(b"\n", start, start + _LONG)
    limit = line_end if line_end >= 0 else min(len(data), start + _LONG)
    position = start
    while (found := data.find(quote, position, limit)) >= 0:
        before = found
        while before > start and data[before - 1] == 0x5C:
            before -= 1
        if len(quote) > 1 or (found - before) % 2 == 0:
            return found
        position = found + 1
    rest = data.find(b"\n", limit)
    return limit if line_end >= 0 else (rest if rest >= 0 else len(data))


def _is_secret(name: str, separator: bytes, quote: bytes | None, value: bytes, *, flag: bool) -> bool:
    how = strength(name)
    if how != "none" and len(value) >= _LONG:
        return True
    if how == "none" or value.startswith(b"//") or MASKED.match(value):
        return False
    text = value.decode("latin-1")
    quoted_name = separator[:1] in (b'"', b"'", b"\\")
    if flag:
        if quoted_name and quote is None and b"\n" not in separator.rstrip(b" \t-|>"):
            return False
        if quoted_name and quote is None and b"," in separator:
            return False
        if quote is None and separator == b" " and _PROSE.fullmatch(text.lower().rstrip(".,;:")):
            return False
        if how == "weak" and _LETTERS_AND_DIGITS.fullmatch(text):
            return True
    elif b":" in separator and quote is None and not separator.endswith((b" ", b":")):
        return False
    return not harmless(name, how, text, assigned=separator == b"=")


_LETTERS_AND_DIGITS: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^\s()\[\]{}.,/]{5,}")
"""What is a token behind a flag such as ``--token``; behind names in logs it has to look more like one."""
