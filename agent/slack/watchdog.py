"""Notice that Socket Mode has gone silent, which its own client does not always, and connect anew."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from agent.slack.door import Door
from agent.slack.errors import KEYS, SlackKeysRefused, SlackRefused, told

if TYPE_CHECKING:
    from aiohttp import WSMessage
    from slack_sdk.socket_mode.aiohttp import SocketModeClient

EVERY_S: Final = 15.0
SILENT_PINGS: Final = 4
"""Pings without an answer after which a link counts as dead."""

REFUSALS: Final = 4
"""Looks in a row at which Slack refuses a key, after which it counts as taken away."""

QUIET_S: Final = 600.0
"""A link that carried nothing for so long is made anew: it may answer pings and still be deaf."""


class Watchdog:
    """Look after one link."""

    def __init__(
        self,
        client: SocketModeClient,
        door: Door,
        log: logging.Logger,
        *,
        every_s: float = EVERY_S,
        quiet_s: float = QUIET_S,
    ) -> None:
        self._client = client
        self._door = door
        self._log = log
        self._every_s = every_s
        self._quiet_s = quiet_s
        self._carried = time.monotonic()
        self._refusals = 0
        client.on_message_listeners.append(self._on_message)

    async def _on_message(self, message: WSMessage) -> None:
        self._carried = time.monotonic()

    async def watch(self) -> None:
        """Look for ever: pings that come back, an `auth.test` that is answered, something carried.

        Raise `SlackKeysRefused` when Slack takes a key no more: it was rotated, or the app was removed.
        """
        while True:
            await asyncio.sleep(self._every_s)
            before = self._refusals
            answered = await self._answered()
            why = await self._silent() or (None if answered else "Slack did not answer auth.test")
            if why is not None:
                self._log.warning("Socket Mode is silent (%s): connecting anew", why)
                await self._connect()
            elif time.monotonic() - self._carried > self._quiet_s:
                self._log.info("nothing came for %.0f s: connecting anew, to be sure", self._quiet_s)
                await self._connect()
            if self._refusals == before:
                self._refusals = 0

    async def _connect(self) -> None:
        from slack_sdk.errors import SlackApiError

        self._carried = time.monotonic()
        try:
            async with asyncio.timeout(4 * self._every_s):
                await self._client.connect_to_new_endpoint(force=True)
        except SlackApiError as error:
            self._refused(told("apps.connections.open", error))
        except Exception as error:  # noqa: BLE001 - whatever kept it from connecting, it is tried again
            self._log.warning("Socket Mode: still not connected (%s); trying again", type(error).__name__)
        else:
            self._log.info("Socket Mode: connected again")

    async def _silent(self) -> str | None:
        session, last = self._client.current_session, self._client.last_ping_pong_time
        if session is None or session.closed:
            return "the link is closed"
        if last is not None and time.time() - last > self._client.ping_interval * SILENT_PINGS:
            return f"no answer to pings for {time.time() - last:.0f} s"
        return None if await self._client.is_connected() else "the link is stale"

    async def _answered(self) -> bool:
        """Tell whether Slack can be asked who we are; that it refuses the key is an answer."""
        try:
            await self._door.call("auth.test")
        except SlackRefused as error:
            self._refused(error)
            return error.code in KEYS
        return True

    def _refused(self, error: SlackRefused) -> None:
        if error.code not in KEYS:
            self._log.warning("%s; trying again", error)
            return
        self._log.error("%s", error)
        self._refusals += 1
        if self._refusals >= REFUSALS:
            raise SlackKeysRefused(error.what, do=f"{error.do}, and start me again: what runs is kept")
