"""Answer a call of the tool `settings`: gather, explain, keep what is cited, and cut to what fits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.contract import Host, ToolContext, ToolError
from tools.facts import redacted
from tools.settings import subject as subjects
from tools.settings import view
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
    """Explain, keep every file that is cited, and return a view that fits."""
    host = ctx.host(args.host)
    answer = await full_view(ctx, args)
    if args.what == "diff":
        answer = _only_differences(answer)
    subject = await subject_of(ctx, host, args)
    answer["artifacts"] = await asyncio.to_thread(_keep, ctx, host, subject, answer)
    return fit(answer, ctx.settings.view_chars)


def _only_differences(answer: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = answer["settings"]
    shown = {
        name: {key: part for key, part in one.items() if key not in ("definition", "origin")}
        for name, one in settings.items()
        if one["class"] not in ("default", "unknown") or one.get("disagrees") or one.get("contradicted")
    }
    unknown = [name for name, one in settings.items() if not one["known"]]
    rest = len(settings) - len(shown)
    return {**answer, "settings": shown, "unknown": unknown, "others": f"{rest} settings are not listed"}


def _keep(ctx: ToolContext, host: Host, subject: Subject, answer: Mapping[str, Any]) -> dict[str, str]:
    """Keep the cited files, the unit and the log, so that they can be quoted; return handles by path."""
    location = subject.location
    assert location is not None
    taken_at = datetime.now(UTC)
    kept: dict[str, str] = {}
    for path in dict.fromkeys(_cited(answer)):
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
    texts = {
        f"systemctl cat {subject.evidence.unit}": subject.evidence.unit_text,
        "log of the start": subject.evidence.log,
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


def _each(answer: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
    for one in answer.get("settings", {}).values():
        change(one)


def _drop(one: dict[str, Any], *names: str) -> None:
    for name in names:
        one.pop(name, None)


def _fewer(one: dict[str, Any], key: str, most: int) -> None:
    rows = one.get(key, [])
    if len(rows) > most:
        one[key] = rows[:most]
        one.setdefault("cut", {})[key] = f"{most} of {len(rows)}"


def _plainer(one: dict[str, Any]) -> None:
    """Leave out what decides nothing: true conditions of assignments, help texts."""
    for row in one.get("overwrites", ()):
        row["conditions"] = [c for c in row["conditions"] if c["verdict"] != "true"]
    for step in one.get("steps", ()):
        step["conditions"] = step["conditions"][-6:]
    if one.get("definition"):
        one["definition"]["help"] = one["definition"]["help"][:200]


def _without_conditions(one: dict[str, Any]) -> None:
    for row in one.get("overwrites", ()):
        _drop(row, "conditions", "needs")


def _short_values(one: dict[str, Any]) -> None:
    text = json.dumps(one["value"])
    if len(text) > 200:
        one["value"] = f"{text[:200]} [cut]"


_STEPS: tuple[Callable[[dict[str, Any]], None], ...] = (
    _plainer,
    lambda one: _fewer(one, "readers", 10),
    _without_conditions,
    _short_values,
    lambda one: _fewer(one, "overwrites", 12),
    lambda one: _fewer(one, "readers", 4),
    lambda one: _fewer(one, "steps", 3),
    lambda one: _drop(one, "definition", "observed", "alternatives"),
    lambda one: _fewer(one, "overwrites", 4),
    lambda one: _drop(one, "steps", "needs"),
    lambda one: _drop(one, "overwrites", "readers", "log"),
)


def fit(answer: dict[str, Any], limit: int) -> dict[str, Any]:
    """Cut an answer, least telling parts first, until it fits; what went is said."""
    for step in _STEPS:
        if _size(answer) <= limit:
            return answer
        _each(answer, step)
        answer["cut"] = "parts are left out; ask for fewer names"
    settings: dict[str, Any] = answer.get("settings", {})
    names = list(settings)
    while _size(answer) > limit and len(names) > 1:
        names = names[: len(names) * 3 // 4]
        answer["settings"] = {name: settings[name] for name in names}
        answer["cut"] = f"{len(names)} of {len(settings)} settings are shown; name those you want"
    for key in ("suspects", "problems"):
        rows = answer.get(key, [])
        while _size(answer) > limit and len(rows) > 1:
            rows = rows[: len(rows) * 3 // 4]
            answer["cut"] = f"{len(rows)} of {len(answer[key])} {key} are shown"
            answer[key] = rows
    return answer


def _size(answer: Iterable[Any]) -> int:
    return len(json.dumps(answer, ensure_ascii=False))
