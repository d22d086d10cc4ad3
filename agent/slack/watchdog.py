"""Notice that Socket Mode has gone silent, which its own client does not always, and connect anew."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from agent.slack.door import Door
from agent.slack.errors import KEYS, SlackRefused

if TYPE_CHECKING:
    from slack_sdk.socket_mode.aiohttp import SocketModeClient

EVERY_S: Final = 15.0
SILENT_PINGS: Final = 4
"""Pings without an answer after which a link counts as dead."""


async def watch(
    client: SocketModeClient, door: Door, log: logging.Logger, *, every_s: float = EVERY_S
) -> None:
    """Look after the link for ever: pings that come back, and an `auth.test` that is answered."""
    while True:
        await asyncio.sleep(every_s)
        why = await _silent(client)
        if why is None and await _refused(door, log):
            why = "Slack did not answer auth.test"
        if why is None:
            continue
        log.warning("Socket Mode is silent (%s): connecting anew", why)
        try:
            async with asyncio.timeout(4 * every_s):
                await client.connect_to_new_endpoint(force=True)
        except Exception as error:  # noqa: BLE001 - whatever kept it from connecting, it is tried again
            log.warning("Socket Mode: still not connected (%s); trying again", type(error).__name__)
        else:
            log.warning("Socket Mode: connected again")


async def _silent(client: SocketModeClient) -> str | None:
    session = client.current_session
    if session is None or session.closed:
        return "the link is closed"
    last = client.last_ping_pong_time
    if last is not None and time.time() - last > client.ping_interval * SILENT_PINGS:
        return f"no answer to pings for {time.time() - last:.0f} s"
    return None if await client.is_connected() else "the link is stale"


async def _refused(door: Door, log: logging.Logger) -> bool:
    """Tell whether Slack cannot be asked who we are; keys that it refuses are told, no more."""
    try:
        await door.call("auth.test")
    except SlackRefused as error:
        if error.code in KEYS:
            log.error("%s", error)
            return False
        return True
    return False
