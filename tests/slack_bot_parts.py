"""The real bot, by the real slack_bolt and slack_sdk, in the fake Slack, with scripted models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agent.approvals_record import ApprovalRecord
from agent.approvals_store import ApprovalStore
from agent.config import Settings
from agent.session import Session
from agent.slack.bot import Bot
from agent.slack.desk import Desk, Opener, symptom
from agent.slack.manifest import manifest, scopes
from agent.slack.run import serving
from agent.slack.store import Kept
from tests.fake_slack import FakeSlack
from tests.fake_slack_people import Said
from tests.fake_slack_world import BOT_USER, OTHER_TEAM, TEAM, Json
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import Move, ScriptedModel
from tests.trial_parts import moves, ports, tools
from tools.contract import Host, Tool

ME: Final = f"<@{BOT_USER}>"
EVENTS: Final = manifest()["settings"]["event_subscriptions"]["bot_events"]
ROLES: Final[Mapping[str, Any]] = {
    "approver": [
        f"slack:{TEAM}:U0BEN",
        f"slack:{TEAM}:U0CLEO",
        f"slack:{TEAM}:U0GUEST",
        f"slack:{OTHER_TEAM}:U0OTHER",
    ]
}
"""A guest and a person of another team stand in the map by mistake: neither may decide even so."""


def make_slack(**more: Any) -> FakeSlack:
    """Return a workspace in which the app has what its manifest asks for, and nothing else."""
    return FakeSlack(scopes=scopes(), events=EVENTS, **more)


def said_settings(
    root: Path, slack: FakeSlack, *, approvals: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Return settings, as plain values, of a bot that may try approved changes in one channel."""
    said: dict[str, Any] = {
        "bot_token": slack.bot_token,
        "app_token": slack.app_token,
        "signing_secret": slack.signing_secret,
        "api_url": slack.api_url,
        "teams": [TEAM],
        "hosts": ["here"],
        "channels": {
            "C0OPS": {"hosts": ["here"], "members_may_start": True, "mode": "apply"},
            "G0SECRET": {"hosts": ["here"], "members_may_start": True},
            "direct": {"hosts": ["here"], "members_may_start": True},
        },
    }
    return {
        "state_dir": root,
        "tools": {"allow_load": True},
        "hosts": {"here": {"ssh": "local"}},
        "approvals": {"roles": ROLES} | dict(approvals or {}),
        "slack": said | more,
    }


def bot_settings(root: Path, slack: FakeSlack, **said: Any) -> Settings:
    """Return the same as settings."""
    return Settings(**said_settings(root, slack, **said))


def opener(
    service: FakeService,
    script: Sequence[Move] | Callable[[Kept], Sequence[Move]],
    more: Mapping[str, Tool[Any]],
) -> Opener:
    """Return what opens investigations that follow a script, and change the file that stands for a host."""

    def opened(settings: Settings, kept: Kept, hosts: Mapping[str, Host]) -> Session:
        model = ScriptedModel(script(kept) if callable(script) else script)
        given: dict[str, Any] = {"tools": {**tools(service), **more}, "ports": ports(service)}
        if kept.thread is not None:
            return Session.resume(settings, kept.thread, model, hosts, **given)
        mode = settings.slack.channel(kept.place.channel).mode
        return Session.start(settings, model, hosts, symptom(kept), mode, requester=kept.requester, **given)

    return opened


def opened_quickly(
    service: FakeService,
    script: Sequence[Move] | Callable[[Kept], Sequence[Move]],
    more_tools: Mapping[str, Tool[Any]] | None = None,
) -> Callable[[Desk], Desk]:
    """Return what makes a desk open scripted investigations, and show progress without a pause."""
    opens = opener(service, script, more_tools or {})
    return lambda desk: replace(desk, opener=opens, every_s=0.02, look_s=0.05)


@asynccontextmanager
async def bot(
    slack: FakeSlack,
    root: Path,
    script: Sequence[Move] | Callable[[Kept], Sequence[Move]] = (),
    *,
    service: FakeService | None = None,
    more_tools: Mapping[str, Tool[Any]] | None = None,
    http: int | None = None,
    settings: Settings | None = None,
    **said: Any,
) -> AsyncIterator[Bot]:
    """Let the bot run for the time of the block."""
    service = service or FakeService(FileHost(root / "host.json"))
    quick = opened_quickly(service, script or moves(), more_tools)
    async with serving(settings or bot_settings(root, slack, **said), http=http, change=quick) as running:
        if http is None:
            await slack.socket.connected()
        yield running


async def asked(slack: FakeSlack, *, who: str = "U0ADA", text: str = "decode is slow") -> tuple[Said, Json]:
    """Let somebody ask; return what they said, and the message that asks for an approval."""
    said = await (await slack.user(who).says("C0OPS", f"{ME} {text}")).acked()
    return said, await slack.message("C0OPS", action='"approve"', thread=said.ts)


def approval(root: Path) -> ApprovalRecord:
    """Return the last approval of a state folder."""
    store = ApprovalStore(root)
    return store.get(store.ids()[-1])


def decided(record: ApprovalRecord) -> str:
    """Return what became of an approval, and by whom."""
    return f"{record.state} by {record.decided_by.user if record.decided_by else 'nobody'}"
