"""Carry out ``undo`` and ``verify``: connect, ask, and print what came of it."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.config import Settings, load_settings, with_rights
from agent.errors import ExitCode, LeadlineError
from agent.events import ToolFinished, UndoAsked
from agent.kept import Kept, find_kept
from agent.surfaces.approving import decide, refuse_unattended
from agent.surfaces.targets import is_lab, open_host, say
from agent.undoing import UndoModel, thread_for
from tools.contract import Host, ToolError
from tools.display import printable, visible_json

if TYPE_CHECKING:
    from agent.session import Session
    from agent.still_holding import StillHolds


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOptions:
    """Hold what the command line asked for."""

    change: str
    approve: bool
    allow_in_flight: bool
    as_json: bool


def run_undo(options: UndoOptions) -> None:
    """Take a change back and leave with the code of how that ended."""
    code = asyncio.run(_undo(options))
    if code is not ExitCode.DONE:
        raise SystemExit(int(code))


async def _undo(options: UndoOptions) -> ExitCode:
    settings = with_rights(load_settings(), allow_in_flight=options.allow_in_flight)
    kept = find_kept(settings, options.change)
    if options.approve:
        refuse_unattended([kept.plan.host])
    async with open_host(kept.plan.host, settings) as host:
        session = open_undo(settings, kept, host)
        try:
            await _drive(session, options)
            return _told(session, kept, options)
        finally:
            await session.close()


def open_undo(settings: Settings, kept: Kept, host: Host, **more: Any) -> Session:
    """Open the thread that takes a kept change back, or the one that was begun for it and has no end."""
    from agent.session import Session

    thread, begun = thread_for(settings, kept)
    hosts = {kept.plan.host: host}
    if begun:
        session = Session.resume(settings, thread, UndoModel(), hosts, **more)
    else:
        asked = f"take {kept.plan.setting} of {kept.plan.unit} back, kept by {kept.plan.id}"
        session = Session.start(settings, UndoModel(), hosts, asked, "apply", thread=thread, **more)
    if not any(isinstance(event, UndoAsked) for event in session.events):
        session.take_back(
            UndoAsked(
                thread=kept.thread,
                change=kept.change.id,
                plan=kept.plan.model_dump(mode="json"),
                by=pwd.getpwuid(os.getuid()).pw_name,
            )
        )
    return session


async def _drive(session: Session, options: UndoOptions) -> None:
    from agent.surfaces.ask import shown

    show = shown(unattended=options.approve)
    async for event in session.ask(None):
        show(event)
    while (events := await decide(session, unattended=options.approve)) is not None:
        async for event in events:
            show(event)


def _told(session: Session, kept: Kept, options: UndoOptions) -> ExitCode:
    view = _view(session)
    if session.ended is None and session.waiting is not None:
        again = f"leadline undo {options.change}"
        sys.stderr.write(f"an approval is needed; answer it at a terminal: {again}\n")
        view = {"result": "waits", "why": "an approval is needed"}
    result = str(view.get("result", "not_applied"))
    row: dict[str, Any] = {
        "schema_version": 1,
        "change": kept.ref,
        "plan": kept.plan.id,
        "host": kept.plan.host,
        "unit": kept.plan.unit,
        "result": "taken_back" if result == "kept" else "still_kept" if result == "rolled_back" else result,
        "why": str(view.get("why") or view.get("error") or ""),
        "session_id": session.thread,
    }
    if options.as_json:
        sys.stdout.write(visible_json(json.dumps(row, ensure_ascii=False)) + "\n")
    else:
        words = row["result"].replace("_", " ")
        sys.stdout.write(
            printable(f"{kept.ref} ({kept.plan.setting} of {kept.plan.unit}): {words}: {row['why']}\n")
        )
    if result == "waits":
        return ExitCode.APPROVAL_NEEDED
    return ExitCode.DONE if result == "kept" else ExitCode.ERROR


def _view(session: Session) -> dict[str, Any]:
    found = [e for e in session.events if isinstance(e, ToolFinished) and e.tool == "propose_change"]
    view: dict[str, Any] = json.loads(found[-1].view) if found else {}
    return view


def run_verify(change: str, *, allow_load: bool | None, as_json: bool) -> None:
    """Look at a kept change again and leave with 0 only where it still holds."""
    report = asyncio.run(_verify(change, allow_load))
    sys.stdout.write((visible_json(report.model_dump_json()) if as_json else text_of(report)) + "\n")
    codes = {"still_holds": ExitCode.DONE, "unknown": ExitCode.ERROR}
    code = codes.get(report.state, ExitCode.PROBLEM_FOUND)
    if code is not ExitCode.DONE:
        raise SystemExit(int(code))


async def _verify(change: str, allow_load: bool | None) -> StillHolds:
    from agent.measuring import MEASURE
    from agent.own_secrets import redactor
    from agent.still_holding import look_again
    from tools.observe import observe
    from tools.registry import load
    from tools.service import holding

    settings = load_settings()
    kept = find_kept(settings, change)
    lab = is_lab(kept.plan.host)
    allowed = allow_load if allow_load is not None else settings.tools.allow_load or lab
    tools = settings.tools.model_copy(update={"allow_load": allowed})
    settings = settings.model_copy(update={"tools": tools})
    redact = redactor(settings)
    async with open_host(kept.plan.host, settings) as host:
        try:
            found = await holding(host, kept.plan)
        except ToolError as error:
            raise LeadlineError(str(error), do="look at the host") from error
        return await look_again(
            settings, kept, host, found, observe=observe, tool=load(MEASURE), redact=redact, progress=say
        )


def text_of(report: StillHolds) -> str:
    """Return a report as a person reads it."""
    value = "left out" if report.value is None else report.value
    lines = [f"{report.change}: {report.state.replace('_', ' ')}: {report.why}"]
    lines += [f"  {report.setting} ({value}) of {report.unit} on {report.host}, kept {report.kept_at}"]
    for item in report.mechanism:
        lines.append(f"  {item.name}: {item.before} before the change, {item.after} now")
    for row in report.levels:
        figures = (
            f"{name} {number:.1f}" if number is not None else f"{name} nothing"
            for name, number in (("before", row.before), ("after", row.after), ("now", row.now))
        )
        lines.append(f"  concurrency {row.concurrency}: {', '.join(figures)} tok/s")
    lines += [f"  {note}" for note in report.notes]
    return "\n".join(printable(line) for line in lines)
