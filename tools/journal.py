"""Read logs by unit, time and pattern; repeated lines folded with counts, decode lines summed up."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from tools import fold
from tools.aside import aside
from tools.contract import HostArgs, Outcome, Result, Tool, ToolContext, ToolError
from tools.fold import Line

if TYPE_CHECKING:
    from tools.contract import ArtifactRef, Host

_HEAD = 2 << 20
_TAIL = 6 << 20
_LOGS_KEPT = 4
_MARK = b"\n\x01cut\x01\n"
_HINTS = (
    "insufficient permissions",
    "You are currently not seeing messages from other users",
    "not permitted",
)
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]{1,255}")
_TIME = re.compile(r"[0-9A-Za-z :+.,@-]{1,64}")
Span = Callable[[str], tuple[int, int] | None]


class Args(HostArgs):
    """Say which log lines to read."""

    unit: str | None = Field(default=None, description="Such as sglang.service; default: every unit.")
    since: str | None = Field(default=None, description='As journalctl takes it: "-1h", "2026-01-31 10:00".')
    until: str | None = Field(default=None, description="As journalctl takes it.")
    pattern: str | None = Field(default=None, description="RE2 syntax; only lines that match are shown.")
    last: int = Field(default=200, ge=1, le=20_000, description="Without a pattern: how many lines to read.")
    boot: bool = Field(default=True, description="Only the current boot.")
    kernel: bool = Field(default=False, description="Kernel messages.")
    fold: bool = Field(default=True, description="Fold lines that differ only in numbers and ids.")

    @field_validator("unit")
    @classmethod
    def _unit_name(cls, value: str | None) -> str | None:
        if value is not None and (not _UNIT.fullmatch(value) or value.startswith("-")):
            raise ValueError("not a unit name")
        return value if value is None or "." in value else f"{value}.service"

    @field_validator("since", "until")
    @classmethod
    def _time(cls, value: str | None) -> str | None:
        if value is not None and not _TIME.fullmatch(value):
            raise ValueError("not a time that journalctl knows")
        return value


@cache
def script() -> str:
    """Return the script that reads a log on a host."""
    return Path(__file__).with_name("journal.sh").read_text()


def argv(args: Args) -> list[str]:
    """Return the one command that reads the log."""
    root = f"/proc/{args.process_root}/root" if args.process_root else ""
    words = [
        *(["-u", args.unit] if args.unit else []),
        *(["-k"] if args.kernel else []),
        *(["-b"] if args.boot and not args.kernel else []),
        *([f"--since={args.since}"] if args.since else []),
        *([f"--until={args.until}"] if args.until else []),
        *([] if args.pattern else ["-n", str(args.last)]),
        *([f"--root={root}"] if root else []),
    ]
    kernel = "kernel" if args.kernel else ""
    return [
        "sh",
        "-c",
        script(),
        "leadline-journal",
        args.unit or "",
        kernel,
        root,
        str(_HEAD),
        str(_TAIL),
        *words,
    ]


@dataclass(frozen=True, slots=True)
class Read:
    """Hold what came back: the log's text, whether all of the scope was read, and the host's remarks."""

    data: bytes
    complete: bool
    said: dict[str, str]
    errors: str
    outcome: Outcome

    @property
    def denied(self) -> bool:
        """Tell whether a right was missing."""
        return "denied" in self.said or any(hint in self.errors for hint in _HINTS)


def understand(result: Result) -> Read:
    """Take the marker and the remarks out of what the script printed."""
    head, _, tail = result.stdout.data.partition(_MARK)
    said: dict[str, str] = {}
    errors = []
    for line in result.stderr.data.decode("utf-8", "replace").splitlines():
        if found := re.match(r"ll-(\w+)=(.*)$", line):
            said[found.group(1)] = found.group(2)
        elif line.strip():
            errors.append(line.strip())
    whole = result.ok and not result.truncated and len(tail) < _TAIL and not (tail and "seam" in said)
    data = head + tail if whole else head + (b"\n[... lines left out ...]\n" if tail else b"") + tail
    return Read(data, whole and "code" not in said, said, "\n".join(errors), result.outcome)


def _finder(pattern: str) -> Span:
    import re2

    try:
        compiled, of_bytes = re2.compile(pattern), re2.compile(pattern.encode())
    except re2.error as error:
        raise ToolError(f"pattern is not RE2 syntax: {error}") from error

    def span(text: str) -> tuple[int, int] | None:
        # Where a character is a byte the offsets are the same, and nothing has to be counted.
        found = of_bytes.search(text.encode()) if text.isascii() else compiled.search(text)
        return found.span() if found else None

    return span


def _refuse(args: Args, read: Read, host: str) -> None:
    """Raise for what left nothing to read."""
    if "not-found" in read.said.get("load", ""):
        raise ToolError(
            f"{host} has no unit {args.unit}; `facts` lists the units, `journal` without unit all lines"
        )
    if "none" in read.said:
        raise ToolError(f"{host} has neither a journal nor a log file in /var/log")
    if "code" in read.said and not read.denied:
        raise ToolError(f"journalctl on {host} failed: {(read.errors or 'no message')[-300:]}")


def _shown(groups: list[list[Line]], span: Span | None, budget: int) -> tuple[list[dict[str, Any]], int]:
    """Return the newest groups that fit the budget, oldest first, and how many did not."""
    width = max(240, min(6000, budget // max(1, len(groups)) - 120))
    rows: list[dict[str, Any]] = []
    for group in reversed(groups):
        row = fold.row(group, width, span(group[-1].text) if span else None)
        budget -= len(json.dumps(row, ensure_ascii=False))
        if budget < 0 and rows:
            break
        rows.append(row)
    return rows[::-1], len(groups) - len(rows)


def _scope(args: Args, read: Read) -> str:
    parts = [read.said.get("source", "journalctl"), args.unit or ("kernel" if args.kernel else "all units")]
    if read.said.get("source") == "journalctl":
        parts += [f"since {args.since}"] if args.since else []
        parts += [f"until {args.until}"] if args.until else []
        parts += ["this boot"] if args.boot or args.kernel else []
    return ", ".join(parts)


def _limits(args: Args, read: Read, lines: int) -> list[str]:
    """Say why what was read is not the whole scope."""
    why = []
    if read.outcome != "exited":
        why.append(f"reading was cut off ({read.outcome}): narrow it with since and until")
    elif "code" in read.said:
        why.append(f"{read.said['source']} ended with exit code {read.said['code']}: {read.errors[:200]}")
    elif "No journal files were found" in read.errors:
        why.append("this host keeps no journal files")
    elif not read.complete:
        why.append("the log is longer than what is read at a time: narrow it with since and until")
    if args.pattern is None and lines >= args.last:
        why.append(f"only the last {args.last} lines were read: raise last, or give a pattern to search all")
    if read.denied:
        why.append("this account may not read all of it")
    if read.said.get("source") != "journalctl" and (args.since or args.until or args.boot):
        why.append("read from a file, where since, until and boot have no effect")
    return why


def _log(ctx: ToolContext, sha256: str) -> fold.Log:
    """Return a stored log as read; the newest few stay, for one turn asks several things of the same log."""
    kept: dict[str, fold.Log] = ctx.cache.setdefault("journal:logs", {})
    log = kept.pop(sha256, None) or fold.log(ctx.store.get(sha256).decode("utf-8", "replace"))
    kept[sha256] = log
    for oldest in list(kept)[:-_LOGS_KEPT]:
        del kept[oldest]
    return log


async def _taken(ctx: ToolContext, host: Host, words: list[str]) -> Result:
    """Read a log on its host; calls of one turn that ask for the same one wait for the same answer."""
    on_the_way: dict[tuple[str, ...], asyncio.Future[Result]] = ctx.cache.setdefault("journal:reads", {})
    key = (host.name, *words)
    if first := on_the_way.get(key):
        await asyncio.wait([first])
        if not first.cancelled():
            return first.result()
    task = asyncio.ensure_future(host.exec(words, timeout_s=60.0, max_bytes=_HEAD + _TAIL + 4096, retry=True))
    on_the_way[key] = task
    try:
        return await task
    finally:
        on_the_way.pop(key, None)


def _view(ctx: ToolContext, args: Args, read: Read, ref: ArtifactRef) -> dict[str, Any]:
    log = _log(ctx, ref.sha256)
    lines = log.lines
    span = _finder(args.pattern) if args.pattern else None
    matching = [line for line in lines if span(line.text)] if span else lines
    groups = fold.fold(matching, span) if args.fold else [[line] for line in matching[-args.last :]]
    why = _limits(args, read, len(lines))
    view: dict[str, Any] = {
        "host": ref.host,
        "unit": args.unit,
        "scope": _scope(args, read),
        "pattern": args.pattern,
        "lines": len(lines),
        "matches": len(matching),
        "artifact": ref.handle,
        "complete": not why or (len(why) == 1 and why[0].startswith("read from a file")),
        "why_incomplete": why,
        "not_permitted": [f"log of {_scope(args, read)}: {read.errors[:200]}"] if read.denied else [],
        "starts": log.starts,
    }
    if log.decode:
        view["decode"] = log.decode[:12]
    budget = ctx.settings.view_chars - len(json.dumps(view, ensure_ascii=False)) - 200
    view["shown"], left = _shown(groups, span, max(budget, 600))
    if left:
        view["left_out"] = f"{left} older groups of lines; page on in {ref.handle} with read_file"
    if span and not matching and view["complete"]:
        view["note"] = "nothing matches in all that was asked for: an absence"
    return view


async def run(ctx: ToolContext, args: Args) -> dict[str, Any]:
    """Read the log, keep it whole as an artifact, and return the folded lines that match."""
    host = ctx.host(args.host)
    if args.pattern:
        _finder(args.pattern)  # a wrong pattern is said before anything is read
    result = await _taken(ctx, host, argv(args))
    if result.outcome != "exited" and not result.stdout.total:
        raise ToolError(f"the log of {host.name} could not be read: {result.outcome} {result.detail}".strip())
    read = understand(result)
    if not read.data.strip() or fold.is_empty(read.data.decode("utf-8", "replace")):
        _refuse(args, read, host.name)
    return await aside(ctx, lambda: _kept(ctx, args, read, host.name, result.started_at))


def _kept(ctx: ToolContext, args: Args, read: Read, host: str, taken_at: datetime) -> dict[str, Any]:
    """Keep a log whole and return its view."""
    label = " ".join(["journal", *argv(args)[9:]]) if read.said.get("source") == "journalctl" else "log file"
    path = read.said.get("source", "")
    ref = ctx.keep(
        read.data,
        host=host,
        label=label,
        taken_at=taken_at,
        path=path if path.startswith("/") else None,
        complete=read.complete and not read.denied,
    )
    return _view(ctx, args, read, ref)


TOOL = Tool(
    name="journal",
    description=(
        "Read log lines by unit, time and pattern (RE2). Lines that differ only in numbers are folded with "
        "counts; `decode` sums up an engine's decode lines; `complete` with 0 matches means there are none."
    ),
    args=Args,
    run=run,
)
