"""An approval as a message of its own: all that is approved, who may decide, and buttons that die.

The one record stays `agent/approvals_store.py`; a message shows it. What cannot be shown exactly (a secret,
an unseen character) gets no buttons: it is decided at a terminal, where the person sees what they approve.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from agent.approvals_record import ApprovalRecord
from agent.approvals_store import ApprovalStore
from agent.config import Settings
from agent.errors import LeadlineError
from agent.slack.door import Block, Door
from agent.slack.errors import SlackRefused
from agent.slack.history import messages_of
from agent.slack.report import section
from agent.slack.store import Place, SlackStore
from agent.slack.text import SECTION_CHARS, Cleaner, escaped, fenced
from agent.state import Change
from agent.surfaces.answer_text import edit
from agent.surfaces.approvals_view import state_of
from tools.service_types import ChangePlan

APPROVE: Final = "approve"
DENY: Final = "deny"

_MOST_CALLED: Final = 10

_log = logging.getLogger("leadline.slack")


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold what a person is asked to approve."""

    record: ApprovalRecord
    plan: ChangePlan
    change: Change

    @property
    def title(self) -> str:
        """Return what is asked in one line."""
        return f"{self.change.id}: {edit(self.change)} on {self.plan.host}"


async def ask(
    door: Door, store: SlackStore, settings: Settings, place: Place, asked: Asked, *, again: bool = False
) -> None:
    """Put an approval into its thread; one that is shown already stays as it is.

    ``again``: a process that died may have asked, and not have lived to write down in which message.
    """
    if store.open_messages("approval", ref=asked.record.id):
        return
    if again:
        await _close_lost(door, place, asked.record.id, "Asked again below.")
    diff = asked.plan.diff
    exact = shown_exactly(asked, door.clean)
    long = len(fenced(diff)) > SECTION_CHARS
    if long and exact:
        note = f"The whole diff of {asked.change.id}, plan {asked.record.digest[:12]}"
        await door.upload(place, f"{asked.change.id}-{asked.record.digest[:12]}.diff", diff.encode(), note)
    blocks = _blocks(settings, asked, door.clean, exact=exact, in_file=long)
    ts = await door.say(place, f"Approval needed: {escaped(door.clean.line(asked.title))}", blocks)
    store.show(place, ts, "approval", asked.record.id)


async def _close_lost(door: Door, place: Place, approval: str, text: str) -> None:
    """Take the buttons away of a question that nobody knows of: its post was answered too late, or twice."""
    try:
        found = await messages_of(door, place)
    except SlackRefused as error:
        _log.warning("%s; a question with buttons may be left", error)
        return
    for one in found:
        if one.get("bot_id") and approval in json.dumps(one.get("blocks") or []):
            with suppress(SlackRefused):  # another's message, which is not ours to change
                await door.change(place, str(one["ts"]), text, [section(text)])


async def close(door: Door, store: SlackStore, settings: Settings, approval: str) -> None:
    """Take the buttons away where an approval is shown, and say what became of it; open ones stay."""
    shown = store.open_messages("approval", ref=approval)
    if not shown:
        return
    try:
        record = ApprovalStore(settings.state_dir).get(approval)
        said, open_ = outcome(record, datetime.now(UTC)), state_of(record, datetime.now(UTC)) == "waiting"
    except LeadlineError as error:
        said, open_ = f"This approval cannot be used: {error}", False
    if open_:
        return
    text = escaped(door.clean.line(said, 1500))
    for one in shown:
        try:
            await door.change(one.place, one.ts, text, [section(text)])
        except SlackRefused as error:
            if error.code == "link":
                raise
            # The message is gone, or the channel: there is nothing left to press.
        store.shut(one.place.channel, one.ts)
    await _close_lost(door, shown[0].place, approval, text)


def outcome(record: ApprovalRecord, now: datetime) -> str:
    """Return what became of an approval, with who decided and when."""
    state = state_of(record, now)
    who = f" by {record.decided_by.label()}" if record.decided_by else ""
    when = f" at {record.decided_at:%Y-%m-%d %H:%M:%S} UTC" if record.decided_at else ""
    what = f"{record.change} ({record.setting} of {record.unit} on {record.host})"
    if state == "expired":
        return f"{what}: expired, nobody decided in time; plan {record.digest[:12]}"
    if state == "used":
        state = "approved"
    why = f": {record.reason}" if record.reason else ""
    return f"{what}: {state}{who}{when}{why}; plan {record.digest[:12]}"


def shown_exactly(asked: Asked, clean: Cleaner) -> bool:
    """Tell whether what is approved reads in Slack just as it is."""
    diff = asked.plan.diff
    whole = clean.exact(diff) == diff and clean.exact(fenced(diff)) == fenced(diff)
    return whole and "```" not in diff and all(clean.exact(text) == text for text in _names(asked.plan))


def _names(plan: ChangePlan) -> tuple[str, ...]:
    return plan.host, plan.unit, plan.setting, plan.dropin_path


def _blocks(settings: Settings, asked: Asked, clean: Cleaner, *, exact: bool, in_file: bool) -> list[Block]:
    record = asked.record
    head = {"type": "plain_text", "text": f"Approval needed: {asked.change.id}"}
    blocks: list[Block] = [{"type": "header", "text": head}, section(escaped(clean.line(asked.title)))]
    if not exact:
        refused = (
            "This plan holds something that cannot be shown here exactly, so it cannot be decided here. At a "
            f"terminal of the machine that runs me: `leadline approvals show {record.id}`"
        )
        return [*blocks, section(refused)]
    until = f"*Expires*: {record.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    blocks.append(section(f"*Who may decide*: {_deciders(settings, record, clean)}\n{until}"))
    diff = f"The whole diff is in the file above ({len(asked.plan.diff)} characters)." if in_file else ""
    blocks.append(section(diff or fenced(asked.plan.diff)))
    rows = [f"*{name}*: {escaped(clean.line(text, 500))}" for name, text in _rows(asked)]
    blocks += [section(piece) for piece in _pieces("\n".join(rows))]
    return [*blocks, _actions(record)]


def _pieces(rows: str) -> list[str]:
    from agent.slack.text import split

    return split(rows, SECTION_CHARS)


def _rows(asked: Asked) -> list[tuple[str, str]]:
    plan, change, record = asked.plan, asked.change, asked.record
    undo = change.rollback.rstrip(" .")
    return [
        ("Why", change.reason),
        ("Predicted effect", change.predicted_effect),
        *(("Caution", caution) for caution in change.cautions),
        ("Undo", f"{undo}. By itself {plan.rollback_after_s:.0f} s after it, unless confirmed."),
        ("Blast radius", "; ".join(record.risk) or "not known"),
        ("File", plan.dropin_path),
        ("Plan", f"sha256 {record.digest}"),
        ("Approval", record.id),
        ("Asked for by", record.requester.label()),
    ]


def _deciders(settings: Settings, record: ApprovalRecord, clean: Cleaner) -> str:
    """Return who may decide, so that Slack calls them; their ids come from the settings alone."""
    approvals, asker = settings.approvals, ":".join(record.requester.key)
    listed = (*approvals.roles.approver, *approvals.roles.admin)
    others = [entry for entry in listed if entry != asker or approvals.requester_may_approve]
    shown = ", ".join(_called(entry, settings) for entry in others[:_MOST_CALLED])
    more = f" and {len(others) - _MOST_CALLED} more" if len(others) > _MOST_CALLED else ""
    nobody = "nobody here" if listed else "nobody here: [approvals.roles] is empty"
    asked = escaped(clean.line(record.requester.label(), 120))
    but = "" if approvals.requester_may_approve else f"; not {asked}, who asked for it"
    return (shown + more or nobody) + but


def _called(entry: str, settings: Settings) -> str:
    surface, team, user = entry.split(":")
    return f"<@{user}>" if surface == "slack" and team in settings.slack.teams else escaped(entry)


def _actions(record: ApprovalRecord) -> Block:
    value = json.dumps({"approval": record.id, "digest": record.digest, "thread": record.thread})
    return {
        "type": "actions",
        "elements": [
            _button(APPROVE, "Approve", "primary", value),
            _button(DENY, "Deny", "danger", value),
        ],
    }


def _button(action: str, text: str, style: str, value: str) -> Block:
    words = {"type": "plain_text", "text": text}
    return {"type": "button", "action_id": action, "text": words, "style": style, "value": value}


def deny_view(press: dict[str, str]) -> Block:
    """Return the modal that asks for the reason of a denial; it carries which press opened it."""
    field = {"type": "plain_text_input", "action_id": "reason", "multiline": True, "max_length": 900}
    return {
        "type": "modal",
        "callback_id": DENY,
        "private_metadata": json.dumps(press),
        "title": {"type": "plain_text", "text": "Deny the change"},
        "submit": {"type": "plain_text", "text": "Deny"},
        "close": {"type": "plain_text", "text": "Back"},
        "blocks": [
            {
                "type": "input",
                "optional": True,
                "block_id": "why",
                "label": {"type": "plain_text", "text": "Why? The model and the case file are told."},
                "element": field,
            }
        ],
    }
