"""Answer a call of the tool `settings`: gather, explain, keep what is cited, and cut to what fits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.contract import Host, ToolContext, ToolError
from tools.facts import redacted
from tools.settings import brief, view
from tools.settings import subject as subjects
from tools.settings.fitting import fit
from tools.settings.remote import RemoteTree
from tools.settings.subject import Subject
from tools.settings.tool import Args
from tools.settings.whose import engine_pid


async def subject_of(
    ctx: ToolContext,
    host: Host,
    args: Args,
    stand_in: Path | None = None,
) -> Subject:
    """Return what a call is about."""
    pid = args.pid
    if args.unit or pid is not None:
        pid = await engine_pid(host, unit=args.unit or "", pid=pid)
    return await subjects.of_host(ctx, host, pid, args.process_root, unit=args.unit or "", stand_in=stand_in)


async def full_view(ctx: ToolContext, args: Args, stand_in: Path | None = None) -> dict[str, Any]:
    """Return the whole answer to a call, redacted."""
    if args.what == "one" and not args.names:
        raise ToolError("name the settings to explain, or ask for what=diff")
    subject = await subject_of(ctx, ctx.host(args.host), args, stand_in)
    answer: dict[str, Any] = await asyncio.to_thread(_answer, subject, args)
    clean: dict[str, Any] = redacted(answer, ctx.redact)
    return clean


def _answer(subject: Subject, args: Args) -> dict[str, Any]:
    what = view.lint_view(subject, args.launch_line) if args.what == "lint" else {}
    if args.what == "suspects":
        what = view.suspects_view(subject)
    if args.what in ("one", "diff"):
        names = [subjects.named(subject, name) for name in args.names]
        what = {"settings": view.settings_view(subject, names)}
    if isinstance(subject.tree, RemoteTree):
        subject.tree.remember()
    # Last, for it tells what was fetched on the way.
    return {**view.host_head(subject), **what}


async def bounded_view(ctx: ToolContext, args: Args) -> dict[str, Any]:
    """Explain in few words, keep every file that is cited, and return a view that fits."""
    if args.what == "one" and not args.names:
        raise ToolError("name the settings to explain, or ask for what=diff")
    host = ctx.host(args.host)
    subject = await subject_of(ctx, host, args)
    answer = await asyncio.to_thread(_brief, subject, args)
    answer = fit(redacted(answer, ctx.redact), ctx.settings.view_chars)
    kept = await asyncio.to_thread(_keep, ctx, host, subject, answer)
    # What names the files is added; the places are shorter by then.
    return fit(brief.with_handles(answer, kept) | {"artifacts": kept}, ctx.settings.view_chars)


def _brief(subject: Subject, args: Args) -> dict[str, Any]:
    what: dict[str, Any] = {}
    if args.what == "one":
        names, strange = _named(subject, args.names)
        what = brief.settings_brief(subject, names) | ({"no_settings": strange} if strange else {})
    elif args.what == "diff":
        what = brief.table_brief(subject)
    elif args.what == "suspects":
        what = view.suspects_view(subject)
    elif args.what == "lint":
        what = view.lint_view(subject, args.launch_line)
    if isinstance(subject.tree, RemoteTree):
        subject.tree.remember()
    return {**view.brief_head(subject), **what}


def _named(subject: Subject, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the settings meant, and of each word that is none why; raise when none of them is one."""
    names: list[str] = []
    strange: dict[str, str] = {}
    for word in words:
        try:
            names.append(subjects.named(subject, word))
        except ToolError as error:
            strange[word] = str(error)
    if not names:
        raise ToolError("; ".join(strange.values()))
    return list(dict.fromkeys(names)), strange


def _keep(ctx: ToolContext, host: Host, subject: Subject, answer: Mapping[str, Any]) -> dict[str, str]:
    """Keep the cited files, the unit and the log, so that they can be quoted; return handles by path."""
    location = subject.location
    assert location is not None
    taken_at = datetime.now(UTC)
    kept: dict[str, str] = {}
    places = [place.rpartition(":")[0] for place in brief.cited_places(answer)]
    for path in dict.fromkeys([*places, *_cited(answer)]):
        data = subject.tree.read(path)
        if data is not None:
            folder = subject.stand_in or location.package
            key = f"kept:{host.name}:{folder}/{path}"
            if key not in ctx.cache:
                ctx.cache[key] = ctx.keep(
                    data,
                    host=host.name,
                    label=f"{folder}/{path}",
                    taken_at=taken_at,
                    path=None if subject.stand_in else f"{folder}/{path}",
                    package=subject.tree.engine,
                    version=subject.tree.version,
                )
            kept[path] = ctx.cache[key].handle
    settings = answer.get("settings", {}).values()
    texts = {
        f"systemctl cat {subject.evidence.unit}": subject.evidence.unit_text,
        "log of the start": subject.evidence.log if any("log" in one for one in settings) else "",
        "server_info": json.dumps(location.process.effective) if location.process.effective else "",
    }
    for label, text in texts.items():
        key = f"kept:{host.name}:{location.process.pid}:{label}"
        if text.strip() and key not in ctx.cache:
            ctx.cache[key] = ctx.keep(text.encode(), host=host.name, label=label, taken_at=taken_at)
        if key in ctx.cache:
            kept[label] = ctx.cache[key].handle
    return kept


def _cited(answer: object) -> Iterator[str]:
    """Yield the path of every citation in an answer."""
    if isinstance(answer, Mapping):
        for key, part in answer.items():
            if key in ("cite", "decided_at", "given_by", "refused_at") and isinstance(part, str):
                yield part.rpartition("@")[0].rpartition(":")[0]
            elif key == "calls":
                yield from (call.rpartition("@")[0].rpartition(":")[0] for call in part)
            else:
                yield from _cited(part)
    elif isinstance(answer, list):
        for part in answer:
            yield from _cited(part)
