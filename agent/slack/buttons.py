"""What a press of a button does: a decision on a plan, through the one record of them, or details."""

from __future__ import annotations

import asyncio
import html
import logging
from dataclasses import replace
from typing import Final, Literal

from agent import threads
from agent.approvals_decide import Decision, decide
from agent.approvals_record import ApprovalRecord, ApprovalRefused
from agent.approvals_store import ApprovalStore
from agent.errors import LeadlineError
from agent.events import Event
from agent.roles import Person, owner_of, refusal
from agent.slack import approvals, plot, report
from agent.slack.desk import Desk
from agent.slack.errors import SlackRefused
from agent.slack.incoming import Click
from agent.slack.text import escaped

_MOST_PARTS: Final = 2

_log = logging.getLogger("leadline.slack")


async def press(desk: Desk, click: Click) -> ApprovalRecord | None:
    """Carry out a press of Approve or Deny; return the approval when it is decided by it.

    Deny opens a modal for the reason; whoever may not decide gets none, and that is audited.
    """
    person = await desk.access.person(click.team, click.user)
    if click.action == approvals.DENY and await asyncio.to_thread(_may, desk, click, person):
        await _ask_why(desk, click)
        return None
    decision: Literal["approved", "denied"] = "approved" if click.action == approvals.APPROVE else "denied"
    return await given(desk, click, person, decision, "")


async def given(
    desk: Desk, click: Click, person: Person, decision: Literal["approved", "denied"], reason: str
) -> ApprovalRecord | None:
    """Decide, atomically and once; whoever is refused is told why, alone."""
    wanted = Decision(
        approval=click.value.get("approval", ""),
        digest=click.value.get("digest", ""),
        decision=decision,
        by=person,
        reason=reason,
        click=click.key,
    )
    try:
        record = await asyncio.to_thread(decide, desk.settings, wanted)
        # The message is ours, or Slack would not have sent the press: its buttons die even if a process that
        # died posted it and did not live to write it down.
        desk.store.show(click.place, click.ts, "approval", wanted.approval)
    except ApprovalRefused as error:
        await _told(desk, click, str(error))
        record = None
    except LeadlineError as error:
        _log.error("%s", error)
        await _told(desk, click, str(error))
        return None
    await approvals.close(desk.door, desk.store, desk.settings, wanted.approval)
    return record


async def details(desk: Desk, click: Click) -> None:
    """Put what a button below an answer asks for into the thread."""
    person = await desk.access.person(click.team, click.user)
    refused = await desk.access.refusal(person, click.place.channel, starts=False)
    kept = desk.store.of_thread(click.value.get("thread", ""))
    if refused is not None or kept is None or kept.thread is None:
        await _told(desk, click, refused or "I do not know this investigation any more")
        return
    # The thread that is asked about gets the answer, whatever the button's message claims to be.
    click = replace(click, place=kept.place)
    try:
        await _show(desk, click, kept.thread)
    except SlackRefused as error:
        _log.warning("%s", error)
        await _told(desk, click, str(error))


async def _show(desk: Desk, click: Click, thread: str) -> None:
    from agent.casefile import build
    from agent.transcript import read_events
    from tools.artifacts import ArtifactStore

    folder = threads.find(desk.settings, thread)
    events: list[Event] = list(await asyncio.to_thread(read_events, folder / "transcript.jsonl"))
    door, clean = desk.door, desk.door.clean
    match click.action:
        case "plot":
            drawn = await asyncio.to_thread(plot.before_after, events)
            if drawn is None:
                await door.say(click.place, "Nothing was measured before and after a change.")
                return
            await door.upload(click.place, f"{thread}.png", drawn[0], escaped(clean.line(drawn[1], 600)))
        case "case":
            from agent.surfaces.records import write_case

            files = await asyncio.to_thread(write_case, folder, folder)
            for name in files[:3]:
                path = folder / name.rpartition("/")[2]
                if path.suffix in (".md", ".html"):
                    data = await asyncio.to_thread(path.read_bytes)
                    await door.upload(click.place, f"{thread}-{path.name}", data)
        case "hypotheses" | "evidence":
            case = await asyncio.to_thread(build, events, ArtifactStore(folder / "artifacts"))
            tell = report.hypotheses if click.action == "hypotheses" else report.evidence
            await _told_in_pieces(desk, click, f"{thread}-{click.action}.txt", tell(case, clean))
        case _:
            _log.warning("a button %r is none of ours", click.action)


async def _told_in_pieces(desk: Desk, click: Click, name: str, parts: list[str]) -> None:
    """Post a few messages; what would be more goes into a file behind the first of them."""
    if len(parts) <= _MOST_PARTS:
        for part in parts:
            await desk.door.say(click.place, part)
        return
    await desk.door.say(click.place, parts[0])
    whole = html.unescape("\n".join(parts)).encode()
    await desk.door.upload(click.place, name, whole, "There is more; this file holds all of it.")


def _may(desk: Desk, click: Click, person: Person) -> bool:
    """Tell whether somebody may deny, as far as it is known before they do."""
    settings = desk.settings
    try:
        record = ApprovalStore(settings.state_dir).get(click.value.get("approval", ""))
    except LeadlineError:
        return False
    owner = owner_of(settings.state_dir)
    open_ = record.state in ("waiting", "approved")
    return (
        open_ and refusal(settings.approvals, person, record.requester, owner=owner, approves=False) is None
    )


async def _ask_why(desk: Desk, click: Click) -> None:
    place = {"channel": click.place.channel, "thread_ts": click.place.ts, "ts": click.ts}
    kept = {**click.value, **place, "action_ts": click.action_ts}
    try:
        await desk.door.open_view(click.trigger, approvals.deny_view(kept))
    except SlackRefused as error:
        await _told(desk, click, f"{error}; press Deny again")


async def _told(desk: Desk, click: Click, text: str) -> None:
    try:
        await desk.door.whisper(click.place, click.user, escaped(desk.door.clean.line(text, 900)))
    except SlackRefused as error:
        _log.warning("%s", error)
