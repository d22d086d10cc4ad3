"""Know the program's own secrets, to mask them in any dress, and the key that placeholders are made with."""

from __future__ import annotations

import base64
import hmac
import html
import json
import re
import secrets
import shlex
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

SHORTEST: Final = 8
"""A shorter value stands in ordinary text by chance."""

_NO_SECRETS: Final = frozenset({"dummykey", "no-key-required", "not-needed", "placeholder", "changeme"})


@dataclass(slots=True)
class _Process:
    """Hold what this process knows; it only ever grows, so that nothing known is shown later."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    known: dict[bytes, bytes] = field(default_factory=dict)
    """Every way a secret may be written, with the secret itself."""


_process = _Process()


def use_key(key: bytes) -> None:
    """Make placeholders with the key of this installation from now on."""
    if len(key) < 16:
        raise ValueError("a key of fewer than 16 bytes can be guessed")
    _process.key = key


def digest(value: bytes) -> str:
    """Return what a placeholder names a secret by: keyed, so that a guess cannot be tried against it."""
    return hmac.digest(_process.key, value, "sha256").hex()[:6]


def know(value: str) -> bool:
    """Mask a secret of our own wherever it stands from now on; return False for what is none."""
    raw = value.strip().encode("utf-8", "surrogateescape")
    if len(raw) < SHORTEST or value.strip().lower() in _NO_SECRETS:
        return False
    for dress in _dresses(raw):
        _process.known.setdefault(dress, raw)
    return True


def pattern() -> bytes | None:
    """Return what finds every known secret in one pass, the longest first; None when there is none."""
    return _alternatives(frozenset(_process.known)) if _process.known else None


def plain(written: bytes) -> bytes:
    """Return the secret that was written so."""
    return _process.known[written]


@lru_cache(maxsize=4)
def _alternatives(known: frozenset[bytes]) -> bytes:
    import re2

    escape: Any = re2.escape
    return b"|".join(bytes(escape(dress)) for dress in sorted(known, key=lambda one: (-len(one), one)))


def _dresses(raw: bytes) -> Iterator[bytes]:
    """Yield a secret as it is, as URL, JSON, HTML and shells write it, in hexadecimal, and in base64."""
    yield raw
    for safe in ("", "/"):
        quoted = urllib.parse.quote(raw, safe=safe)
        yield quoted.encode()
        yield re.sub("%[0-9A-F]{2}", lambda code: code.group().lower(), quoted).encode()
        yield urllib.parse.quote(quoted).encode()
    text = raw.decode("utf-8", "replace")
    for escaped in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield escaped.encode()
        yield escaped.replace("/", "\\/").encode()
        yield json.dumps(escaped)[1:-1].encode()
    for quote in (True, False):
        yield html.escape(text, quote=quote).encode()
    yield shlex.quote(text).strip("'").encode()
    yield "".join(f"%{byte:02X}" for byte in raw).encode()
    for encoded in (raw.hex(), raw.hex(" "), raw.hex(":")):
        yield encoded.encode()
        yield encoded.upper().encode()
    # Base64 is found at each of the three places where a secret may begin in it.
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + raw)
        # The letters at either end also hold bits of what stands beside the secret.
        first, left = (0, 2, 3)[before], (before + len(raw)) % 3
        core = coded.rstrip(b"=")[first : None if left == 0 else -1]
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))
