"""A link that goes silent is noticed, told in the log, and made anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.slack.door import Door
from agent.slack.text import Cleaner
from agent.slack.watchdog import Watchdog
from tests.fake_slack import FakeSlack


@asynccontextmanager
async def watched(fake: FakeSlack, **seconds: float) -> AsyncIterator[None]:
    """Hold a Socket Mode link that only the watchdog looks after."""
    from slack_sdk.socket_mode.aiohttp import SocketModeClient
    from slack_sdk.web.async_client import AsyncWebClient

    log = logging.getLogger("watched")
    web = AsyncWebClient(token=fake.bot_token, base_url=fake.api_url)
    client = SocketModeClient(fake.app_token, web_client=web, ping_interval=0.1, auto_reconnect_enabled=False)
    client.default_auto_reconnect_enabled = False
    await client.connect()  # type: ignore[no-untyped-call]
    door = Door(web, Cleaner(lambda data: data))
    watching = asyncio.create_task(Watchdog(client, door, log, every_s=0.1, **seconds).watch())
    try:
        await fake.socket.connected()
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})
        await client.close()  # type: ignore[no-untyped-call]


def opened(fake: FakeSlack) -> int:
    return len(fake.called("apps.connections.open"))


async def test_a_link_that_answers_no_ping_is_made_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "watched")
    async with FakeSlack() as slack, watched(slack):
        before = opened(slack)
        slack.socket.silence()
        await slack.until(lambda: opened(slack) > before or None)
        await slack.socket.connected()
        await slack.until(lambda: "connected again" in caplog.text or None)
    assert "Socket Mode is silent" in caplog.text


async def test_a_link_that_is_deaf_is_made_anew_in_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "watched")
    async with FakeSlack() as slack, watched(slack, quiet_s=0.5):
        before = opened(slack)
        slack.socket.silence(deaf=True)
        await slack.until(lambda: opened(slack) > before or None)
        await slack.socket.connected()
    assert "to be sure" in caplog.text


async def test_refused_keys_are_told_and_make_nothing_anew(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with FakeSlack() as slack, watched(slack):
        before = opened(slack)
        slack.revoked = True
        await slack.until(lambda: "token_revoked" in caplog.text or None)
        assert opened(slack) == before
        slack.revoked = False
