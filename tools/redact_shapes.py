"""Mask secrets that show by their own shape, or by the words around them: tokens, keys, passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

from tools import redact_own, redact_rules
from tools.redact_marks import MASKED, compiled, options, over_lines, placeholder, substitute
from tools.redact_names import harmless
from tools.redact_whole import BLOCK_SIGN, mask_blocks, mask_kubernetes

Mask = Callable[[bytes], bytes]

_SHAPES: Final[tuple[tuple[str, bytes], ...]] = (
    ("api_key", rb"sk-[A-Za-z0-9_-]{16,}"),
    ("hf_token", rb"(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    (
        "github_token",
        rb"(?:gh[opusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
    ),
    ("slack_token", rb"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"),
    ("slack_hook", rb"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{10,}"),
    ("aws_key_id", rb"(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("google_key", rb"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}"),
    ("api_key", rb"(?:nvapi-|gsk_|npm_|dop_v1_|dckr_pat_|pypi-AgE|r8_|tskey-)[A-Za-z0-9_-]{20,}"),
    ("jwt", rb"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?"),
    ("password_hash", rb"\$(?:1|2[abxy]|5|6|7|y|gy|apr1|argon2(?:i|d|id))\$[A-Za-z0-9./$,=+-]{20,}"),
)
_PEM_BEGIN: Final = rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_PEM_END: Final = rb"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_LOGGED: Final = rb"(?:[^\n]{0,160}?[:\]>|][ \t]+)?"
"""What a log puts before each line of a block."""
_PEM_LINE: Final = rb"[ \t\r]*(?:\n|\\n)" + _LOGGED
_PEM_BODY: Final = (
    rb"(?:(?:[ \t\r]|" + _PEM_LINE + rb")?[A-Za-z0-9+/=]{20,})*"
    rb"(?:" + _PEM_LINE + rb"[A-Za-z0-9+/]{1,76}={0,2}(?:[ \t\r]*\n|\z))?"
)
_PEM_TAIL: Final = (
    rb"(?:[A-Za-z0-9+/=]{8,}" + _PEM_LINE + rb")+(?:[A-Za-z0-9+/=]{1,76}" + _PEM_LINE + rb")?" + _PEM_END
)
_BEARER: Final = rb"(?i)\b((?:bearer|basic)[ \t]+)([A-Za-z0-9._~+/=-]{12,})"
_USERINFO: Final = rb"([A-Za-z][A-Za-z0-9+.-]*://[^\s/@:\"'<>]*:)([^\s/@\"'<>]+)@"
_SIGNATURE: Final = (
    rb"(?i)([?&;](?:sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token))=)([^&\s\"'<>]{8,})"
)
_BEFORE: Final[tuple[tuple[str, bytes], ...]] = (
    (r"sig=|signature=|credential=|security-token=", _SIGNATURE),
    (
        r"password[ \t]",
        rb"(?i)((?:\bmachine[ \t]+\S+|\bdefault|\blogin[ \t]+\S+|\baccount[ \t]+\S+)\s+password[ \t]+)(\S+)",
    ),
    (r"password[ \t]", rb"(?im)(^[ \t]*password[ \t]+)(\S+)[ \t\r]*$"),
    (
        r'"auth"|identitytoken|registrytoken',
        rb"(?i)(\"(?:auth|identitytoken|registrytoken)\"[ \t]*:[ \t]*\")([A-Za-z0-9+/=_.-]{8,})\"",
    ),
    (r"password[ \t]", rb"(?i)(\bpassword[ \t]+(?:is[ \t]+|was[ \t]+)?[\"'])([^\s\"']{6,})[\"']"),
    (r"requirepass|masterauth", rb"(?i)(\b(?:requirepass|masterauth)[ \t]+[\"']?)([^\s\"']+)"),
    (r"client-key-data", rb"(?i)(client-key-data[\"']?[ \t]*:[ \t]*[\"']?)([^\s\"',]+)"),
    (
        r"(?:password|passwd|passphrase|secret|key)>",
        rb"(?i)(<[a-z0-9_.:-]*(?:password|passwd|passphrase|secret|(?:api|access|secret|private)[_.-]?key)>\s*)([^<\s]{4,})\s*</",
    ),
    (
        r"</name>",
        rb"(?i)(<name>[^<]{0,200}(?:password|secret)[^<]{0,200}</name>\s*<value>\s*)([^<\s]+)",
    ),
    (r"ipmitool", rb"(\bipmitool\b[^\n|;]*?[ \t]-P[ \t]*)([^\s\"']+)"),
    (r"sshpass", rb"(\bsshpass[ \t]+-p[ \t]*)([^\s\"']+)"),
    (r"mysql|mariadb", rb"(\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;]*?[ \t]-p)([^\s\"'|;]+)"),
    (r"curl", rb"(\bcurl\b[^\n|;]*?[ \t](?:-u|--user)[ =]?[\"']?[^\s:<\"']+:)([^\s\"']+)"),
    (r"redis-cli", rb"(\bredis-cli\b[^\n|;]*?[ \t]-a[ \t]+)([^\s\"']+)"),
    (r"openssl", rb"(\bopenssl\b[^\n|;]*?\bpass:)([^\s\"']+)"),
)
"""Words that a secret follows without a name and a sign between: how programs take passwords."""

_ESCAPE_BEFORE: Final = re.compile(rb"(?:^|[^A-Za-z0-9_]|\\[nrtbf]|\x1b\[[0-9;]*[A-Za-z])\Z")


def mask_own(data: bytes) -> bytes:
    """Mask the program's own secrets, however they are written."""
    pattern = redact_own.pattern()
    if pattern is None:
        return data
    return substitute(pattern, data, lambda match: _own(match.group()))


def _own(written: bytes) -> bytes:
    return placeholder("own_secret", redact_own.plain(written))


def mask_shapes(data: bytes) -> bytes:
    """Mask what shows by its shape or the words right before it."""
    signs, steps = _steps()
    present = frozenset(signs.Match(data) or ())
    for number, step in enumerate(steps):
        if number in present:
            data = step(data)
    return data


@cache
def _steps() -> tuple[Any, tuple[Mask, ...]]:
    """Return the masks in their order, and a set that tells in one pass which of them a text needs."""
    import re2

    steps: list[tuple[str, Mask]] = [
        (r"KEY(?: BLOCK)?-----", _keys),
        ("", _shapes),
        ("", _ruled),
        (r"(?:bearer|basic)[ \t]", lambda data: substitute(_BEARER, data, _bearer)),
        ("://", lambda data: substitute(_USERINFO, data, _userinfo)),
        *((sign, partial(_mask_after, pattern)) for sign, pattern in _BEFORE),
        (r"kind[\"']?[ \t]*:[ \t]*[\"']?Secret", mask_kubernetes),
        (BLOCK_SIGN, mask_blocks),
    ]
    signs: Any = re2.Set.SearchSet(options())
    for sign, _ in steps:
        signs.Add(f"(?i){sign}")
    signs.Compile()
    return signs, tuple(step for _, step in steps)


def _mask_after(pattern: bytes, data: bytes) -> bytes:
    return substitute(pattern, data, _after_words)


def _keys(data: bytes) -> bytes:
    """Mask private key blocks: whole, without an end, and without a beginning."""
    out: list[bytes] = []
    position = 0
    end = compiled(_PEM_END).search(data)
    while (begin := compiled(_PEM_BEGIN).search(data, position)) is not None:
        if end is not None and end.start() < begin.end():
            end = compiled(_PEM_END).search(data, begin.end())
        body = compiled(_PEM_BODY).match(data, begin.end())
        stop = end.end() if end is not None else body.end()
        out += (data[position : begin.start()], over_lines("private_key", data[begin.start() : stop]))
        position = stop
    data = b"".join((*out, data[position:]))
    return substitute(_PEM_TAIL, data, lambda match: over_lines("private_key", match.group()))


def _shapes(data: bytes) -> bytes:
    union = b"|".join(b"(" + pattern + b")" for _, pattern in _SHAPES)

    def replace(match: Any) -> bytes:
        value: bytes = match.group()
        kind = _SHAPES[match.lastindex - 1][0]
        if not _starts_word(data, match.start()) or (kind == "api_key" and not re.search(rb"[0-9]", value)):
            return value
        return placeholder(kind, value)

    return substitute(union, data, replace)


def _starts_word(data: bytes, start: int) -> bool:
    r"""Tell whether a word starts here; letters of escapes such as ``\n`` and ``ESC[1m`` are not of it."""
    return _ESCAPE_BEFORE.search(data, max(0, start - 12), start) is not None


def _ruled(data: bytes) -> bytes:
    """Mask what the rules of gitleaks find."""
    out: list[bytes] = []
    done = 0
    for one in sorted(redact_rules.found(data), key=lambda secret: (secret.start, -secret.end)):
        if one.start >= done:
            out += (data[done : one.start], over_lines(one.kind, data[one.start : one.end]))
            done = one.end
    return b"".join((*out, data[done:])) if out else data


def _bearer(match: Any) -> bytes:
    scheme, value = match.group(1), match.group(2)
    return bytes(scheme + (value if not re.search(rb"[0-9=]", value) else placeholder("secret", value)))


def _userinfo(match: Any) -> bytes:
    value = match.group(2)
    known = value.startswith((b"$", b"{")) or MASKED.fullmatch(value) is not None or value.strip(b"*x") == b""
    return bytes(match.group() if known else match.group(1) + placeholder("secret", value) + b"@")


def _after_words(match: Any) -> bytes:
    """Mask what follows the words of a pattern, unless it is plainly no secret."""
    whole, value = match.group(), match.group(2)
    if MASKED.search(value) or harmless("password", "strong", value.decode("latin-1"), assigned=False):
        return bytes(whole)
    start = match.start(2) - match.start()
    return bytes(whole[:start] + placeholder("secret", value) + whole[start + len(value) :])
