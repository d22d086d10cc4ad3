"""Acknowledge what comes by Socket Mode as it is read, before anything is done with it.

Slack waits three seconds. Bolt acknowledges after several turns of the event loop, each of which is long when
hundreds of investigations are at work. Nothing of ours is answered in an acknowledgement, so it can go first;
a message is kept in the store before it does.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.slack import incoming
from agent.slack.bot import Bot

if TYPE_CHECKING:
    from aiohttp import WSMessage
    from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
    from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest

_KINDS = frozenset({"events_api", "interactive"})


def acknowledge_first(handler: AsyncSocketModeHandler, bot: Bot, me: str, log: logging.Logger) -> None:
    """Let a handler of bolt do its work behind the acknowledgement; what could not be kept gets none."""
    from slack_bolt.adapter.socket_mode.async_internals import run_async_bolt_app

    client, app = handler.client, handler.app

    async def read(message: WSMessage) -> None:
        envelope = _envelope(message.data)
        if envelope is None:
            return
        _keep(bot, me, envelope)
        try:
            await client.send_message(json.dumps({"envelope_id": envelope["envelope_id"]}))
        except (OSError, AttributeError) as error:
            log.warning("an acknowledgement was lost (%s); Slack sends that again", type(error).__name__)

    async def work(_: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        await run_async_bolt_app(app, request)

    client.on_message_listeners.append(read)
    client.socket_mode_request_listeners[:] = [work]


def _envelope(data: Any) -> Mapping[str, Any] | None:
    """Return what is to be acknowledged; None for greetings and what is no JSON."""
    try:
        found = json.loads(data)
    except (TypeError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("type") not in _KINDS or not found.get("envelope_id"):
        return None
    return found


def _keep(bot: Bot, me: str, envelope: Mapping[str, Any]) -> None:
    payload = envelope.get("payload") or {}
    shortcut = payload.get("type") == "message_action"
    said = incoming.shortcut(payload, me) if shortcut else incoming.spoken(payload, me)
    if said is not None:
        bot.keep(said)
