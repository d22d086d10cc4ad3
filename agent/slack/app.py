"""The listeners: read what Slack sends, acknowledge it at once, and hand it to the bot."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agent.slack import approvals, incoming
from agent.slack.bot import Bot

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp
    from slack_bolt.authorization import AuthorizeResult
    from slack_sdk.web.async_client import AsyncWebClient

Ack = Callable[..., Awaitable[Any]]
_ANY = re.compile(r".*")


def make_app(
    bot: Bot,
    client: AsyncWebClient,
    authorized: AuthorizeResult,
    signing_secret: str | None,
    log: logging.Logger,
) -> AsyncApp:
    """Return the application of slack_bolt; with a signing secret every request over HTTP is verified.

    Socket Mode needs none: what comes through its websocket comes from Slack.
    """
    from slack_bolt.async_app import AsyncApp

    async def authorize() -> AuthorizeResult:
        return authorized

    level = log.level
    log.setLevel(logging.ERROR)  # it warns of a key in the environment, which is read in the settings alone
    app = AsyncApp(
        name="leadline",
        logger=log,
        client=client,
        authorize=authorize,
        signing_secret=signing_secret or "unused",
        request_verification_enabled=signing_secret is not None,
    )
    log.setLevel(level)
    me = str(authorized.bot_user_id)
    _listen_to_messages(app, bot, me)
    _listen_to_presses(app, bot)

    @app.error
    async def failed(error: Exception) -> None:
        log.error("a listener failed: %s: %s", type(error).__name__, error)

    return app


def _listen_to_messages(app: AsyncApp, bot: Bot, me: str) -> None:
    @app.middleware
    async def keep(body: dict[str, Any], next: Callable[[], Awaitable[Any]]) -> Any:
        spoken = incoming.spoken(body, me)
        if spoken is not None:
            bot.keep(spoken)
        return await next()

    async def heard(body: dict[str, Any]) -> None:
        spoken = incoming.spoken(body, me)
        if spoken is not None:
            bot.heard(spoken)
        change = incoming.revised(body)
        if change is not None:
            bot.revised(change)

    async def used(ack: Ack, body: dict[str, Any]) -> None:
        spoken = incoming.shortcut(body, me)
        if spoken is not None:
            bot.keep(spoken)
        await ack()
        if spoken is not None:
            bot.heard(spoken)

    async def other() -> None:
        """Acknowledge what there is nothing to do about, so that it is not sent again."""

    app.event("app_mention")(heard)
    app.event("message")(heard)
    app.shortcut({"type": "message_action", "callback_id": _ANY})(used)
    app.event(_ANY)(other)


def _listen_to_presses(app: AsyncApp, bot: Bot) -> None:
    async def pressed(ack: Ack, body: dict[str, Any]) -> None:
        await ack()
        click = incoming.click(body)
        if click is not None:
            bot.pressed(click)

    async def sent(ack: Ack, body: dict[str, Any]) -> None:
        await ack()
        found = incoming.submitted(body)
        if found is not None:
            bot.submitted(*found)

    app.action(_ANY)(pressed)
    app.view(approvals.DENY)(sent)
