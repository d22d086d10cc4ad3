"""Mask secrets in what hosts print, before a model, a transcript or a disk sees it.

Two kinds of signs: the shape of a value (``hf_...``, a private key block), and the name that stands before it
(``API_KEY=...``). A value is replaced by a placeholder with the start of its digest, the same wherever it
stands, so that two places can still be compared. Line breaks are kept, so that line numbers stay right.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final

from tools.redact_names import harmless, strength

_WORDS: Final = (
    rb"secrets?|passw(?:or)?ds?|passphrase|pwd|api[_.-]?keys?|access[_.-]?keys?|private[_.-]?keys?"
    rb"|secret[_.-]?keys?|(?:auth|signing|encryption|master|account|service|shared|ssh)[_.-]?keys?|credentials?"
    rb"|cookie|authorization"
)
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
)
_PEM_BEGIN: Final = rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_PEM_END: Final = rb"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_PEM_BODY: Final = rb"(?:[ \t\r]*(?:\n|\\n)?[A-Za-z0-9+/=]{20,})*"
_PEM_TAIL: Final = rb"(?:[A-Za-z0-9+/=]{8,}[ \t\r]*(?:\n|\\n))+" + _PEM_END
_BEARER: Final = rb"(?i)\b((?:bearer|basic)[ \t]+)([A-Za-z0-9._~+/=-]{12,})"
_USERINFO: Final = rb"([A-Za-z][A-Za-z0-9+.-]*://[^\s/@:\"'<>]*:)([^\s/@\"'<>]+)@"
_PART: Final = rb"[A-Za-z0-9_.-]*"
_FILL: Final = {
    b"TOKEN": _PART + rb"tokens?" + _PART,
    b"OTHER": _PART + rb"(?:" + _WORDS + rb")" + _PART,
    b"NAME": _PART + rb"(?:tokens?|" + _WORDS + rb")" + _PART,
    b"Q": rb"(?:\\?[\"'])",
    b"BARE": rb"[^\s\"'\x00]",
    b"SEP": rb"[ \t]*(?::=|=>|={1,3}|:)[ \t]*",
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
    rb"(?i)(--?{NAME})({Q}?(?:[ \t]*,[ \t\r\n]*|[ \t\r\n\x00]+(?:-[ \t]+)?))({Q})?[^\s\"'\x00-]"
)
_PAIR: Final = _filled(
    rb"(?i)\bname{Q}?[ \t]*:[ \t]*{Q}?({NAME})({Q}?,?\s*{Q}?value{Q}?[ \t]*:[ \t]*)({Q})?{BARE}"
)
_PROSE: Final = re.compile(
    "to|or|and|is|for|the|in|if|flag|option|when|with|was|must|can|argument|from|as|on|of|it|that|which|should|has"
)
_ESCAPE_BEFORE: Final = re.compile(rb"(?:^|[^A-Za-z0-9_]|\\[nrtbf]|\x1b\[[0-9;]*[A-Za-z])\Z")
_BARE_END: Final = re.compile(rb"[\s\"'\x00]")
_LINE_END: Final = re.compile(rb"[\r\n\"'\x00]")
_MASKED: Final = re.compile(rb"<masked:[a-z0-9_]+:[0-9a-f]{6}>")
_LONG: Final = 2048
"""A value of this size is masked whatever it is, so that no text makes us read it again and again."""
_MASKED_OPEN: Final = b"<masked:"

_SHOWN: Final = re.compile(
    r"(?:CUDA|NCCL|GLOO|VLLM|SGLANG|SGL|OMP|MKL|OPENBLAS|HF|TORCH|PYTORCH|TORCHINDUCTOR|NVIDIA|NVSHMEM|NVTE|TRITON"
    r"|FLASHINFER|DG|DEEPGEMM|DEEPEP|UCX|RAY|TRANSFORMERS|TOKENIZERS|SAFETENSORS|MALLOC|PYTHON|MOONCAKE)[A-Z0-9_]*"
    r"|LD_PRELOAD|LD_LIBRARY_PATH|PATH|VIRTUAL_ENV|CONDA_PREFIX|LANG|LC_[A-Z]+|TZ|TMPDIR|RANK|LOCAL_RANK|WORLD_SIZE"
    r"|MASTER_ADDR|MASTER_PORT"
)


@lru_cache(maxsize=32)
def _compiled(pattern: bytes) -> Any:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(pattern, options)


@lru_cache(maxsize=32)
def _parts(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern)


_FOUND: ContextVar[set[bytes] | None] = ContextVar("found", default=None)


def placeholder(kind: str, value: bytes) -> bytes:
    """Return what stands for a secret: its kind and the start of its digest."""
    if (found := _FOUND.get()) is not None:
        found.update(part.strip() for part in value.split(b"\n") if b"PRIVATE KEY-----" not in part)
    return b"<masked:%s:%s>" % (kind.encode(), hashlib.sha256(value).hexdigest()[:6].encode())


def redact(data: bytes) -> bytes:
    """Return ``data`` with secrets replaced by placeholders; the number of lines stays the same."""
    data = _keys(data)
    data = _shapes(data)
    data = _substitute(_BEARER, data, _bearer)
    data = _substitute(_USERINFO, data, _userinfo)
    for pattern in (_PAIR, _NAMED, _TOKEN, _FLAG):
        data = _named(pattern, data)
    return data


def secrets_in(data: bytes) -> set[bytes]:
    """Return the secrets that `redact` would mask, a line each: to mask them elsewhere, never to be kept."""
    found: set[bytes] = set()
    token = _FOUND.set(found)
    try:
        redact(data)
    finally:
        _FOUND.reset(token)
    return {value for value in found if value and not _MASKED.fullmatch(value)}


def _keys(data: bytes) -> bytes:
    """Mask private key blocks: whole, without an end, and without a beginning."""
    out: list[bytes] = []
    position = 0
    end = _compiled(_PEM_END).search(data)
    while (begin := _compiled(_PEM_BEGIN).search(data, position)) is not None:
        if end is not None and end.start() < begin.end():
            end = _compiled(_PEM_END).search(data, begin.end())
        body = _compiled(_PEM_BODY).match(data, begin.end())
        stop = end.end() if end is not None else body.end()
        out += (data[position : begin.start()], _keep_lines("private_key", data[begin.start() : stop]))
        position = stop
    data = b"".join((*out, data[position:]))
    return _substitute(_PEM_TAIL, data, lambda match: _keep_lines("private_key", match.group()))


def _substitute(pattern: bytes, data: bytes, replace: Callable[[Any], bytes]) -> bytes:
    """Replace matches; unlike `re2.sub` it copies nothing when there is none."""
    out: list[bytes] = []
    position = 0
    for match in _compiled(pattern).finditer(data):
        out += (data[position : match.start()], replace(match))
        position = match.end()
    return b"".join((*out, data[position:])) if out else data


def _keep_lines(kind: str, value: bytes) -> bytes:
    return placeholder(kind, value) + b"\n" * value.count(b"\n")


def _shapes(data: bytes) -> bytes:
    union = b"|".join(b"(" + pattern + b")" for _, pattern in _SHAPES)

    def replace(match: Any) -> bytes:
        value: bytes = match.group()
        kind = _SHAPES[match.lastindex - 1][0]
        if not _starts_word(data, match.start()) or (kind == "api_key" and not re.search(rb"[0-9]", value)):
            return value
        return placeholder(kind, value)

    return _substitute(union, data, replace)


def _starts_word(data: bytes, start: int) -> bool:
    r"""Tell whether a word starts here; letters of escapes such as ``\n`` and ``ESC[1m`` are not of it."""
    return _ESCAPE_BEFORE.search(data, max(0, start - 12), start) is not None


def _bearer(match: Any) -> bytes:
    scheme, value = match.group(1), match.group(2)
    return bytes(scheme + (value if not re.search(rb"[0-9=]", value) else placeholder("bearer", value)))


def _userinfo(match: Any) -> bytes:
    value = match.group(2)
    known = (
        value.startswith((b"$", b"{")) or _MASKED.fullmatch(value) is not None or value.strip(b"*x") == b""
    )
    return bytes(match.group() if known else match.group(1) + placeholder("password", value) + b"@")


def _named(pattern: bytes, data: bytes) -> bytes:
    """Mask the values behind the names of secrets: quoted to the closing quote, else to the next blank."""
    out: list[bytes] = []
    done = 0
    for start, end, kind in _values(pattern, data):
        if start >= done:
            out += (data[done:start], placeholder(kind, data[start:end]))
            done = end
    return b"".join((*out, data[done:])) if out else data


def _values(pattern: bytes, data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of each secret value that stands behind a name."""
    compiled, parts = _compiled(pattern), _parts(pattern)
    position = 0
    # RE2 finds the place in linear time; taking it apart there is many times faster with `re`.
    while (found := compiled.search(data, position)) is not None:
        match = parts.match(data, found.start())
        if match is None:
            position = found.end()
            continue
        name = _name(data, match.start(1), match[1])
        if strength(name) == "none":  # most are counts of tokens
            position = match.end(3) if match[3] else match.end(2)
            continue
        separator = match[2]
        quote = match[3] or _quote_before(data, match.start(1), separator)
        start = match.end(3) if match[3] else match.end(2)
        query = data[max(match.start() - 1, 0) : match.start()] in (b"?", b"&")
        end = _value_end(data, start, quote, name, query=query)
        masked = match.start() >= len(_MASKED_OPEN) and _MASKED.match(data, match.start() - len(_MASKED_OPEN))
        if not masked and _is_secret(name, separator, quote, data[start:end], flag=pattern is _FLAG):
            yield start, end, _kind(name)
            position = max(end, match.end())
        else:
            position = start


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
        if len(quote) == 2 or (found - before) % 2 == 0:
            return found
        position = found + 1
    rest = data.find(b"\n", limit)
    return limit if line_end >= 0 else (rest if rest >= 0 else len(data))


def _is_secret(name: str, separator: bytes, quote: bytes | None, value: bytes, *, flag: bool) -> bool:
    how = strength(name)
    if how != "none" and len(value) >= _LONG:
        return True
    if how == "none" or value.startswith(b"//") or _MASKED.match(value):
        return False
    text = value.decode("latin-1")
    quoted_name = separator[:1] in (b'"', b"'", b"\\")
    if flag:
        if quoted_name and quote is None:
            return False
        if quote is None and separator == b" " and _PROSE.fullmatch(text.lower().rstrip(".,;:")):
            return False
    elif b":" in separator and quote is None and not separator.endswith((b" ", b":")):
        return False
    return not harmless(name, how, text, assigned=separator == b"=")


def _kind(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[-40:]


def environ_view(pairs: Iterable[tuple[str, str]]) -> dict[str, str | None]:
    """Return environment names with values where they may be shown; ``None`` for the other names."""
    view: dict[str, str | None] = {}
    for name, value in sorted(pairs):
        if not _SHOWN.fullmatch(name):
            view[name] = None
        elif strength(name) != "none" and value:
            view[name] = placeholder(_kind(name), value.encode("utf-8", "surrogateescape")).decode()
        else:
            view[name] = redact(value.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")
    return view
