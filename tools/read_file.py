"""Read a file on a host by line range or by symbol, or page on stored output; with what to cite it by."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from tools.contract import ArtifactRef, HostArgs, Tool, ToolContext, ToolError
from tools.package_path import engine_process, package_of, resolve_path
from tools.policy_paths import read_denied
from tools.statements import find_symbol, first_line, symbols
from tools.syntax import parse

_SCRIPT = Path(__file__).with_suffix(".sh")
_WHOLE = 4 << 20
_LIMIT_S = 15.0
_DEFAULT_LINES = 400
_LINES_AROUND = 40
"""Lines read before a range of a large file: the name that makes a value a secret may stand there."""


class Args(HostArgs):
    """Arguments of `read_file`: a path, or an artifact."""

    path: str | None = Field(
        default=None,
        description="Absolute, or relative to the package of the engine process; may end in ::Class.method.",
    )
    artifact: str | None = Field(
        default=None, description="Handle of stored output to page on, such as t7.1."
    )
    symbol: str | None = Field(default=None, description="Class.method, function, class, field or constant.")
    start: int | None = Field(default=None, ge=1, description="First line.")
    end: int | None = Field(default=None, ge=1, description="Last line.")
    pid: int | None = Field(
        default=None, description="Engine process whose package relative paths are below."
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """Hold what came of a file; ``first`` is the number of the first line in ``data``."""

    data: bytes
    first: int
    whole: bool
    size: int


async def run(ctx: ToolContext, args: Args) -> dict[str, Any]:
    """Read and return numbered lines, bounded; the file or range is kept to be cited."""
    if args.start and args.end and args.end < args.start:
        raise ToolError(f"end {args.end} comes before start {args.start}")
    if (args.path is None) == (args.artifact is None):
        raise ToolError("give either path or artifact")
    if args.artifact is not None:
        return _page(ctx, args)
    host = ctx.host(args.host)
    taken_at = datetime.now(UTC)
    path, _, in_path = (args.path or "").partition("::")
    symbol = args.symbol or in_path or None
    process = None
    if not path.startswith("/") or args.pid is not None:
        process, _ = await engine_process(ctx, host, args.pid, args.process_root, path)
    else:  # the version of an engine's file is part of its citation, when the process is known already
        process = ctx.cache.get(f"process:{host.name}:None:{args.process_root}")
    target = resolve_path(path, process)
    root = f"/proc/{args.process_root}/root" if args.process_root else ""
    nonce = uuid.uuid4().hex
    around = max(1, (args.start or 1) - _LINES_AROUND)
    end = args.end or (args.start + _DEFAULT_LINES - 1 if args.start else 0)
    words = [nonce, root, target, str(around), str(end), str(_WHOLE)]
    result = await host.exec(
        ["sh", "-c", _SCRIPT.read_text(), "read_file", *words],
        timeout_s=_LIMIT_S,
        max_bytes=_WHOLE + (1 << 20),
        retry=True,
    )
    if not result.ok:
        raise ToolError(
            f"{target} on {host.name} could not be read: {result.outcome} {result.detail}".rstrip()
        )
    read = _from_start(ctx, _opened(result.stdout.data, nonce, target, root, args), args, target)
    package, version = package_of(process, target)
    key = f"kept:{host.name}:{target}:{hashlib.sha256(read.data).hexdigest()}"
    ref: ArtifactRef | None = ctx.cache.get(key) if read.whole else None
    if ref is None:
        ref = ctx.keep(
            read.data,
            host=host.name,
            label=target,
            taken_at=taken_at,
            path=target,
            package=package,
            version=version,
            first_line=read.first,
            complete=read.whole,
        )
    if read.whole:
        ctx.cache[key] = ref
    view = {"host": host.name, "path": target, "package": package, "version": version}
    return _shown(ctx, args, view, ref, read, symbol)


def _opened(output: bytes, nonce: str, target: str, root: str, args: Args) -> _Read:
    """Take the script's output apart; raise `ToolError` for what is not a readable text file."""
    rows: dict[str, str] = {}
    data = b""
    marker = f"@@{nonce} ".encode()
    head, _, data = output.partition(marker + b"data\n")
    for row in head.decode("utf-8", "replace").splitlines():
        name, _, rest = row.removeprefix(marker.decode()).partition(" ")
        rows[name] = rest
    _refuse(rows, target, root)
    if b"\0" in data[:8192]:
        raise ToolError(f"{target} is binary; read_file shows text only")
    size = int(rows["size"])
    if "large" not in rows:
        return _Read(data, 1, True, size)
    if args.start is None and args.symbol is None and "::" not in (args.path or ""):
        return _Read(data, 1, False, size)
    if args.start is None:
        raise ToolError(
            f"{target} has {size} bytes: symbols are found in files up to {_WHOLE}; give start and end"
        )
    return _Read(data, max(1, args.start - _LINES_AROUND), False, size)


def _from_start(ctx: ToolContext, read: _Read, args: Args, target: str) -> _Read:
    """Drop the lines before those asked for, once what they say of the others has been heeded."""
    before = (args.start or 1) - read.first
    if read.whole or before <= 0:
        return read
    lines = ctx.redact(read.data).split(b"\n")[before:]
    if not any(lines):
        raise ToolError(f"{target} has no line {args.start} in its first 64 MiB (it has {read.size} bytes)")
    return _Read(b"\n".join(lines), read.first + before, False, read.size)


def _refuse(rows: Mapping[str, str], target: str, root: str) -> None:
    real = rows.get("real", target)
    if reason := read_denied(real):
        raise ToolError(f"{target} is not read: {reason}")
    if "link" in rows:
        link, _, to = rows["link"].partition(" ")
        raise ToolError(f"{link.removeprefix(root)} is a link to {to}; give the path without links")
    if "folder" in rows:
        raise ToolError(f"{target} is a folder; search it with grep or list it with run")
    if "special" in rows:
        raise ToolError(f"{target} is {rows['special']}, not a regular file: it is not read")
    if "missing" in rows:
        raise ToolError(f"{target} does not exist")
    if "unreadable" in rows:
        raise ToolError(f"{target} may not be read by this account (not permitted)")
    if "size" not in rows:
        raise ToolError(f"{target} could not be read")


def _page(ctx: ToolContext, args: Args) -> dict[str, Any]:
    """Page on output that an earlier call kept."""
    ref = ctx.artifacts.get(args.artifact or "")
    if ref is None:
        raise ToolError(f"no artifact {args.artifact}; handles are those in tool results, such as t7.1")
    read = _Read(ctx.store.get(ref.sha256), ref.first_line, ref.complete, ref.size)
    view = {"host": ref.host, "path": ref.path, "package": ref.package, "version": ref.version}
    if ref.path is None:
        view["label"] = ref.label
    return _shown(ctx, args, view, ref, read, args.symbol)


def _shown(
    ctx: ToolContext, args: Args, view: dict[str, Any], ref: ArtifactRef, read: _Read, symbol: str | None
) -> dict[str, Any]:
    """Add the wanted lines to a view, numbered as in the file, as many as fit."""
    clean = ctx.store.get(ref.sha256)
    lines = clean.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    last = read.first + len(lines) - 1
    start, end = (
        args.start or read.first,
        args.end or (last if args.start is None else args.start + _DEFAULT_LINES),
    )
    if symbol is not None:
        start, end = _symbol_lines(read.data, symbol, ref.label)
        start, end = start + read.first - 1, end + read.first - 1
    end = min(end, last)
    if lines and not read.first <= start <= last:
        raise ToolError(f"{ref.label} has lines {read.first} to {last}, not {start}")
    text, shown_end = _numbered(lines, read.first, start, end, ctx.settings.view_chars - 800)
    whole = read.whole and ref.complete
    view |= {
        "sha256": hashlib.sha256(read.data).hexdigest() if whole else ref.sha256,
        "artifact": ref.handle,
        "lines": [start, shown_end],
        "total_lines": last if whole else None,
        "symbol": symbol,
        "text": text,
        "complete": shown_end == end,
    }
    if not whole:
        view["note"] = f"only a part of it was read ({read.size} bytes in all); sha256 is that of the part"
    if shown_end < end:
        view["cut"] = f"lines {shown_end + 1} to {end} are left out: read artifact {ref.handle} from there"
    return view


def _symbol_lines(data: bytes, symbol: str, label: str) -> tuple[int, int]:
    try:
        module = parse(data)
    except SyntaxError as error:
        raise ToolError(f"{label} cannot be parsed ({error.msg}): give start and end") from error
    found = find_symbol(module, symbol)
    if found is None:
        last = symbol.rpartition(".")[2].lower()
        near = [name for name in symbols(module) if last in name.lower()] or symbols(module)
        raise ToolError(f"no symbol {symbol} in {label}; there are: {', '.join(near[:15])}")
    return first_line(found), found.end_lineno or found.lineno


def _numbered(lines: list[bytes], first: int, start: int, end: int, room: int) -> tuple[str, int]:
    """Return lines with their numbers while they fit, and the number of the last one."""
    rows: list[str] = []
    shown = start - 1
    for number in range(start, end + 1):
        text = lines[number - first].decode("utf-8", "replace").rstrip("\r")
        if len(text) > 2000:
            text = f"{text[:2000]} [... {len(text) - 2000} more]"
        row = f"{number}: {text}"
        room -= len(row) + 2
        if room < 0 and rows:
            break
        rows.append(row)
        shown = number
    return "\n".join(rows), shown


TOOL = Tool(
    name="read_file",
    description=(
        "Read a file on the host by line range or by symbol (server_args.py::ServerArgs.method), or page on "
        "the stored output of an earlier call by its artifact handle. Lines carry their numbers."
    ),
    args=Args,
    run=run,
)
