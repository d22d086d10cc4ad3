"""The bot against the fake Slack, in one process: settings, a scripted host and a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.config import Settings
from agent.session import Session
from agent.slack.bot import Bot
from agent.slack.desk import Desk, symptom
from agent.slack.hosts import Connected
from agent.slack.run import serving
from agent.slack.store import Kept
from tests.fake_slack import FakeSlack
from tests.fake_slack_world import TEAM, Json
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import STORY, TOOLS, LocalHost, Move, ScriptedModel, make_settings
from tests.trial_parts import moves, ports, redact, tools
from tools.contract import Host


def settings_for(
    root: Path, fake: FakeSlack, *, more: Mapping[str, Any] | None = None, **slack: Any
) -> Settings:
    """Return settings for the fake's workspace: Ada may start anywhere, everybody in #inference-ops."""
    given = {
        "bot_token": fake.bot_token,
        "app_token": fake.app_token,
        "signing_secret": fake.signing_secret,
        "api_url": fake.api_url,
        "teams": [TEAM],
        "users": [f"{TEAM}:U0ADA"],
        "hosts": ["gpu1", "gpu2"],
        "channels": {
            "C0OPS": {"hosts": ["gpu1"], "members_may_start": True, "mode": "apply"},
            "direct": {"hosts": ["gpu1"]},
        },
    }
    hosts = {name: {"ssh": "local"} for name in ("gpu1", "gpu2", "gpu3")}
    usual = {"hosts": hosts, "tools": {"allow_load": True}}
    return make_settings(root, slack=given | slack, **(usual | dict(more or {})))


@asynccontextmanager
async def here(names: Sequence[str], settings: Settings) -> AsyncIterator[Connected]:
    """Stand for connected hosts by this machine; gpu3 is down."""
    up: dict[str, Host] = {name: LocalHost(name) for name in names if name != "gpu3"}
    down = {name: f"{name}: no route to host; check the network" for name in names if name == "gpu3"}
    yield Connected(up, down)


def story(script: Sequence[Move] = STORY) -> Any:
    """Return an opener whose model takes the moves of a script, with the small tools of the tests."""

    def open_(settings: Settings, kept: Kept, hosts: Mapping[str, Host]) -> Session:
        model = ScriptedModel(script)
        if kept.thread is not None:
            return Session.resume(settings, kept.thread, model, hosts, tools=TOOLS)
        mode = settings.slack.channel(kept.place.channel).mode
        return Session.start(
            settings, model, hosts, symptom(kept), mode, tools=TOOLS, requester=kept.requester
        )

    return open_


def trial(root: Path, script: Sequence[Move] | None = None) -> Any:
    """Return an opener whose model proposes a change, on a service that a file stands for."""
    service = FakeService(FileHost(root / "host.json"))

    def open_(settings: Settings, kept: Kept, hosts: Mapping[str, Host]) -> Session:
        model = ScriptedModel(script or moves())
        more: dict[str, Any] = {"tools": tools(service), "redact": redact, "ports": ports(service)}
        if kept.thread is not None:
            return Session.resume(settings, kept.thread, model, hosts, **more)
        return Session.start(settings, model, hosts, symptom(kept), "apply", requester=kept.requester, **more)

    return open_


@asynccontextmanager
async def bot(
    settings: Settings, opener: Any = None, connector: Any = here, **run: Any
) -> AsyncIterator[Bot]:
    """Run the bot against the fake, showing things at once."""

    def quick(desk: Desk) -> Desk:
        changed = replace(desk, every_s=0.05, look_s=0.2, connector=connector or desk.connector)
        return replace(changed, opener=opener) if opener is not None else changed

    async with serving(settings, change=quick, **run) as running:
        yield running


def now(slack: FakeSlack, message: Json) -> Json:
    """Return a message as it stands now."""
    found = (place.find(message["ts"]) for place in slack.world.channels.values())
    return next(one for one in found if one is not None)


def buttons(slack: FakeSlack, message: Json) -> list[str]:
    """Return the buttons that a message has now."""
    blocks = now(slack, message)["blocks"]
    return [one["action_id"] for block in blocks for one in block.get("elements", []) if "action_id" in one]
