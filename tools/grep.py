"""Search files on a host; matches in Python files come with their function and judged conditions."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from tools.aside import aside
from tools.contract import Host, HostArgs, Tool, ToolContext, ToolError
from tools.definitions import ENGINES, outside_pattern
from tools.findings import Findings, contents_of, judge_key
from tools.fit_view import fit
from tools.package_path import engine_process, resolve_path
from tools.policy_paths import read_denied
from tools.process import ProcessFacts, forget_process
from tools.search import Hit, Query, search

_GREP_LIMITS = "grep: no rg on this host; the pattern was read as POSIX extended, a glob only as a file name"


class Args(HostArgs):
    """Arguments of `grep`."""

    pattern: str = Field(min_length=1, max_length=4000, description="Regular expression (ripgrep's syntax).")
    path: str | None = Field(
        default=None,
        description="File or folder; relative to the package of the engine process. Default: that package.",
    )
    pid: int | None = Field(default=None, description="Engine process to judge by; default: the main one.")
    glob: str | None = Field(default=None, description="Only files of this shape, such as *.py.")
    fixed: bool = Field(default=False, description="Take the pattern as plain text.")
    ignore_case: bool = False
    max_matches: int = Field(default=200, ge=1, le=2000)
    judge: bool = Field(default=True, description="Add conditions and verdicts to matches in Python files.")


async def run(ctx: ToolContext, args: Args) -> dict[str, Any]:
    """Search, annotate what was found, and return a bounded view."""
    host = ctx.host(args.host)
    taken_at = datetime.now(UTC)
    if "\0" in args.pattern + (args.glob or ""):
        raise ToolError("a pattern cannot hold a NUL byte; write \\x00")
    for _ in range(2):
        process, notes = await engine_process(ctx, host, args.pid, args.process_root, args.path)
        query = _query(ctx, args, resolve_path(args.path, process), process)
        known = list(contents_of(ctx, host))
        version = ctx.cache.get(_version_key(host), "")
        found = await search(host, query, known, may_send=ctx.settings.allow_send_rg, version=version)
        if found.engine.startswith("ripgrep"):
            ctx.cache[_version_key(host)] = found.engine
        if not found.restarted or process is None:
            break
        forget_process(ctx, process)
    if reason := read_denied(found.real or query.target):
        raise ToolError(f"{query.target} is not read: {reason}")
    findings = Findings(ctx, host, process, found, taken_at, args.judge, notes)
    hits = findings.hits()
    await findings.look_around(hits, query.root)
    return await aside(ctx, lambda: _view(args, query, findings, hits))


def _version_key(host: Host) -> str:
    return f"rg:{host.name}"


def _query(ctx: ToolContext, args: Args, target: str, process: ProcessFacts | None) -> Query:
    query = Query(
        target=target,
        pattern=args.pattern,
        glob=args.glob or "",
        fixed=args.fixed,
        ignore_case=args.ignore_case,
        root=f"/proc/{args.process_root}/root" if args.process_root else "",
        pid=process.pid if process else None,
        start_time=process.start_time if process else 0,
    )
    if process is None or not args.judge or not process.package_root or judge_key(process) in ctx.cache:
        return query
    engine = ENGINES[process.engine]
    return dataclasses.replace(
        query,
        definitions=f"{process.package_root}/{engine.file}",
        package=process.package_root,
        scope=engine.scope,
        outside=outside_pattern(engine),
    )


def _view(args: Args, query: Query, findings: Findings, hits: list[Hit]) -> dict[str, Any]:
    found, process = findings.found, findings.process
    rows = [f"{hit.path}:{hit.line}:".encode() + findings.masked.text(hit) for hit in hits]
    listing = findings.keep(b"\n".join(rows), f"grep {args.pattern}", complete=found.complete)
    shown = hits[: args.max_matches]
    results = findings.results(shown, listing)
    complete = found.complete and len(shown) == len(hits)
    view: dict[str, Any] = {
        "host": findings.host.name,
        "pattern": args.pattern,
        "scope": query.target + (f" ({args.glob})" if args.glob else ""),
        "files": len({hit.path for hit in hits}),
        "matches": len(hits),
        "complete": complete,
        "pid": process.pid if process else None,
        "package": process.package if process else None,
        "version": process.version if process else None,
        "engine": found.engine if found.engine.startswith("ripgrep") else _GREP_LIMITS,
        "artifact": listing.handle,
        "not_permitted": found.not_permitted,
    }
    if found.sent_rg:
        view["sent"] = f"a static rg was put at {found.sent_rg} on this host, as the settings allow"
    if found.files_searched is not None:
        view["files_searched"] = found.files_searched
    if not found.complete:
        view["incomplete"] = found.why_incomplete or "not all files could be searched"
    if findings.notes:
        view["notes"] = findings.notes
    view["results"] = results
    return fit(view, findings.ctx.settings.view_chars, len(hits) - len(shown), listing.handle)


TOOL = Tool(
    name="grep",
    description=(
        "Search files on the host, by default the installed package of the running engine. Each match in a "
        "Python file comes with its function, whether it writes, reads or defines, and the conditions under "
        "which it is reached, judged true, false or unknown by the flags and settings of the running process."
    ),
    args=Args,
    run=run,
)
